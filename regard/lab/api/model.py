"""Endpoints of the view Your model: the attention that `regard.watch` records in a model on the learner's text."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from regard.lab.models.head_labels import head_labels
from regard.lab.models.model_edits import Edit, edits_field, prediction, watch_edited
from regard.lab.models.token_relevance import token_relevance
from regard.lab.models.watched_models import (
    LONGEST,
    NAMES,
    WatchedRun,
    is_installed,
    load_model,
    model_name,
    watch_lock,
    watch_text,
)
from regard.lab.server.array_encoding import encode_array
from regard.lab.server.job_queue import Job
from regard.lab.server.request_fields import Fields, integer, text
from regard.lab.server.routes import get, post, post_job

STEPS = 3  # of loading: torch, the model, its first run (which compiles the statistics, once per machine)


def models(_: Fields) -> dict[str, Any]:
    """Return the names of all models and whether each is installed."""
    return {"models": [{"name": name, "there": is_installed(name)} for name in NAMES]}


def load(fields: Fields) -> Callable[[Job], Any]:
    """Return the job that loads a model; the first time takes seconds."""
    name = model_name(fields)

    def work(job: Job) -> dict[str, Any]:
        job.report(doing="torch", done=0, of=STEPS)
        importlib.import_module("torch")
        job.report(doing="model", done=1, of=STEPS)
        model = load_model(name)
        job.report(doing="run", done=2, of=STEPS)
        watch_text(name, "3 May 2024" if name == "dates" else "the cat").summary  # noqa: B018 (fills the cache)
        parameters = sum(parameter.numel() for parameter in model.named.model.parameters())
        return {"parameters": parameters, "context": model.context}

    return work


def overview(fields: Fields) -> dict[str, Any]:
    """Return statistics and a small map of every head, the model's output, the doctor's findings, what was not seen.

    model, text     the model and its input
    edits           changes of the attention, as in `regard.lab.models.model_edits`

    >>> answer = overview({"model": "phrases", "text": "The cat sat on the mat"})
    >>> answer["written"], len(answer["calls"])
    ('猫坐在垫子上', 6)
    """
    with watch_lock:
        return _overview(_run(fields), edits_field(fields, _unedited(fields)))


def _overview(run: WatchedRun, edits: tuple[Edit, ...] = ()) -> dict[str, Any]:
    from regard.pictures.weights.recorded_heads import pooled
    from regard.watching.doctor.findings import ALL_CHECKS
    from regard.watching.terminal_tables import most_informative_head

    rows = iter(run.summary)
    labels = head_labels(run.model)
    calls = []
    for (queries, keys), call in zip(run.names, run.seen.calls, strict=True):
        heads = [next(rows) for _ in range(call.shape[1])]
        small = encode_array(np.round(255 * np.sqrt(pooled(call, 0))).astype(np.uint8))
        calls.append({"name": call.name, "queries": queries, "keys": keys, "heads": heads, "small": small})
        calls[-1]["labels"] = labels.get(call.name, [[] for _ in heads])
    informative_call, number = most_informative_head(run.seen)
    return {
        "calls": calls,
        "telling": {"call": [call is informative_call for call in run.seen.calls].index(True), "head": number},
        "written": run.written,
        "relevance": token_relevance(run, edits),
        "unseen": run.unseen,
        "findings": [_finding(run, one) for one in run.findings],
        "checked": list(dict.fromkeys(check for _, check in run.findings.checked)),
        "unchecked": [one._asdict() for one in run.findings.not_checked if one.check != ALL_CHECKS],
        "missed": [{"module": one.module, "reason": one.reason} for one in run.seen.unseen],
        "notes": run.seen.notes,
    }


def _finding(run: WatchedRun, finding: Any) -> dict[str, Any]:
    """Return a finding with the names of its tokens and the weight of its example."""
    place = next((i for i, call in enumerate(run.seen.calls) if call.name == finding.call), 0)
    queries, keys = run.names[place]
    head, query, key = finding.head, finding.query, finding.key
    weight = None
    if None not in (head, query, key):
        weight = float(run.seen.calls[place].weights(batch=0, head=head, queries=query, keys=key))
    return {
        "what": finding.what.replace(" ", "-"),
        "call": place,
        "head": head,
        "query": None if query is None else queries[query],
        "key": None if key is None else keys[key],
        "weight": weight,
        "message": finding.message,
    }


def head(fields: Fields) -> dict[str, Any]:
    """Return one head: its weights, the visible pairs, and the statistics of each query.

    call, head      which head, counted from 0
    """
    with watch_lock:
        run = _run(fields)
        call = run.seen.calls[integer(fields, "call", 0, 0, len(run.seen.calls) - 1)]
        number = integer(fields, "head", 0, 0, call.shape[1] - 1)
        statistics = call.statistics
        visible = call.visible(0)[number].numpy()
        return {
            "weights": encode_array(call.weights(batch=0, head=number).numpy()),
            "visible": None if visible.all() else encode_array(visible),
            "entropy": encode_array(statistics.entropy[0, number].double().numpy()),
            "distance": encode_array(_distance(call, number)),
            "spread": encode_array(statistics.spread[0, number].double().numpy()),
            "sink": encode_array(statistics.sink[0, number].double().numpy()),
            "received": encode_array(call.received()[0, number].double().numpy()),
        }


def _distance(call: Any, number: int) -> Any:
    """Return the mean distance of each query of a head to its keys; NaN where positions are not known."""
    known = call.positions is not None
    return call.distance()[0, number].double().numpy() if known else np.full(call.shape[2], np.nan)


def compare(fields: Fields) -> dict[str, Any]:
    """Return the heads sorted by how much they change between two texts, and the overview of the second text."""
    with watch_lock:
        run = _run(fields)
        other = watch_text(run.model.name, text(fields, "other", "", LONGEST), "other")
        rows = run.seen.compare(other.seen)
        places = {call.name: i for i, call in enumerate(run.seen.calls)}
        return {"changes": [{**row, "call": places[row["call"]]} for row in rows], "other": _overview(other)}


def predict(fields: Fields) -> dict[str, Any]:
    """Return the prediction of the model without and with the edits of its attention.

    >>> predict({"model": "phrases", "text": "The cat sat on the mat", "edits": [[1, 0, 0]]})["before"]
    '猫坐在垫子上'
    """
    with watch_lock:
        run = _unedited(fields)
        return prediction(run, edits_field(fields, run))


def _run(fields: Fields) -> WatchedRun:
    run = _unedited(fields)
    return watch_edited(run, edits_field(fields, run))


def _unedited(fields: Fields) -> WatchedRun:
    return watch_text(model_name(fields), text(fields, "text", "The cat sat on the mat", LONGEST))


routes = [
    get("/api/model/models", models),
    post_job("/api/model/load", load),
    post("/api/model", overview, queued=True),
    post("/api/model/head", head, queued=True),
    post("/api/model/compare", compare, queued=True),
    post("/api/model/prediction", predict, queued=True),
]
