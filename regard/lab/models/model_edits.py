"""Edits of a model's attention in the view Your model, and how the model's prediction changes.

An edit multiplies the output of one head, or one weight of one head, by a factor; 0 removes it. `regard.intervene`
applies the edits while the model runs.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.lab.models.watched_models import RUNS, WatchedRun, watch_text
from regard.lab.server.request_fields import FieldError, Fields

if TYPE_CHECKING:
    from torch import Tensor

MOST_EDITS, LARGEST_FACTOR = 32, 10.0
CANDIDATES = 6  # tokens that are shown as possible next tokens, before and after


class Edit(NamedTuple):
    """One edit: the head, and the edge from a query to a key unless the whole head is meant."""

    call: int
    head: int
    query: int | None
    key: int | None
    factor: float


def edits_field(fields: Fields, run: WatchedRun) -> tuple[Edit, ...]:
    """Return the edits of a request for a run without edits.

    edits   [[call, head, factor], …] for heads, [[call, head, query, key, factor], …] for edges
    """
    value = fields.get("edits", [])
    if not isinstance(value, list) or len(value) > MOST_EDITS:
        raise FieldError("edits", "edits", f"edits must be a list of at most {MOST_EDITS}, got {str(value)[:80]}")
    edits = tuple(_edit(item, run) for item in value)
    _check_rows(run, edits)
    return edits


def _edit(item: Any, run: WatchedRun) -> Edit:
    match item:
        case [int(call), int(head), int() | float() as factor]:
            edit = Edit(call, head, None, None, float(factor))
        case [int(call), int(head), int(query), int(key), int() | float() as factor]:
            edit = Edit(call, head, query, key, float(factor))
        case _:
            message = "an edit must be [call, head, factor] or [call, head, query, key, factor]"
            raise FieldError("edits", "edits", f"{message}, got {str(item)[:80]}")
    calls = run.seen.calls
    shape = calls[edit.call].shape if 0 <= edit.call < len(calls) else (0, 0, 0, 0)
    inside = 0 <= edit.head < shape[1] and 0 <= (edit.query or 0) < shape[2] and 0 <= (edit.key or 0) < shape[3]
    if not inside or not 0 <= edit.factor <= LARGEST_FACTOR:
        raise FieldError("edits", "edits", f"edit {item} does not fit the {len(calls)} calls of this run")
    return edit


def _check_rows(run: WatchedRun, edits: tuple[Edit, ...]) -> None:
    """Raise `FieldError` if a query would see nothing."""
    blocked: dict[tuple[int, int, int], set[int]] = {}
    for edit in edits:
        if edit.query is not None and edit.key is not None and edit.factor == 0:
            blocked.setdefault((edit.call, edit.head, edit.query), set()).add(edit.key)
    for (call, head, query), keys in blocked.items():
        visible = set(run.seen.calls[call].visible(0)[head, query].nonzero()[:, 0].tolist())
        if visible <= keys:
            raise FieldError("edits", "empty-row", f"query {query} of head {head} would see nothing")


def watch_edited(run: WatchedRun, edits: tuple[Edit, ...]) -> WatchedRun:
    """Return the run of the same model on the same tokens with the edits, from the cache if possible."""
    return _watch_edited(run.model.name, run.text, edits) if edits else run


@lru_cache(maxsize=RUNS)
def _watch_edited(name: str, text: str, edits: tuple[Edit, ...]) -> WatchedRun:
    from regard.watching.named_models import run_watched

    run = watch_text(name, text)
    with edited(run, edits):
        return replace(run, seen=run_watched(run.model.named, run.inputs))


def edited(run: WatchedRun, edits: tuple[Edit, ...], written: int | None = None) -> AbstractContextManager[None]:
    """Return a context in which the model of a run is edited.

    written     number of tokens that the decoder of a translator reads; edges beyond them are left out
    """
    import regard
    from regard.interventions import reweight

    calls = run.seen.calls
    by_module: dict[str, list[Any]] = {}
    for edit in edits:
        call = calls[edit.call]
        if edit.query is None or edit.key is None:
            intervention: Any = _scale_head(edit.head, edit.factor)
        else:
            decoder = written is not None and call.name.startswith("decoder.")
            if decoder and max(edit.query, 0 if call.cross else edit.key) >= (written or 0):
                continue
            intervention = reweight(keys=edit.key, by=edit.factor, heads=edit.head, queries=edit.query)
        by_module.setdefault(call.name, []).append(intervention)
    return regard.intervene(run.model.named.model, by_module) if by_module else nullcontext()


def _scale_head(head: int, factor: float) -> Any:
    """Return an intervention that multiplies the output of a head."""
    from regard.interventions import ablate

    if factor == 0:
        return ablate(heads=head)

    def scale(call: Any) -> "Tensor":
        output = call.output.clone()
        output[:, head] *= factor
        return output

    return scale


def prediction(run: WatchedRun, edits: tuple[Edit, ...]) -> dict[str, Any]:
    """Return what the model predicts without and with the edits.

    kind            translation, next (token) or embedding
    before, after   the translation, without and with the edits
    similarity      cosine of the sentence's two embeddings
    rows            [name, before, after]: the probability of each token of the translation, or of possible next
                    tokens; for an embedding, the cosine of each token's two vectors
    """
    import torch

    with torch.no_grad():
        if run.model.run is None:
            return _embedding(run, edits)
        return _translation(run, edits) if run.model.run.task == "translate" else _next_token(run, edits)


def _translation(run: WatchedRun, edits: tuple[Edit, ...]) -> dict[str, Any]:
    import torch

    trained = run.model.run
    assert trained is not None
    source, target = run.inputs.args
    end = trained.tokenizer.inner.token_to_id("<end>")
    written = [*target[0, 1:].tolist(), end]
    places = torch.arange(len(written)), torch.tensor(written)

    def probabilities() -> list[float]:
        scores: Tensor = run.model.named.model(source, target)[0].double()
        return scores.softmax(-1)[places].tolist()

    before = probabilities()
    with edited(run, edits):
        after = probabilities()
    # One whole pass per token, so that an edge has the same query and key in every pass.
    ids = [int(target[0, 0])]
    while len(ids) < trained.context:
        with edited(run, edits, len(ids)):
            token = int(run.model.named.model(source, torch.tensor([ids]))[0, -1].argmax())
        if token == end:
            break
        ids.append(token)
    names = run.names[next(i for i, call in enumerate(run.seen.calls) if call.name.endswith(".cross"))][0]
    return {
        "kind": "translation",
        "before": run.written,
        "after": trained.tokenizer.decode(ids[1:]),
        "rows": [list(row) for row in zip(names, before, after, strict=True)],
    }


def _next_token(run: WatchedRun, edits: tuple[Edit, ...]) -> dict[str, Any]:
    trained = run.model.run
    assert trained is not None

    def probabilities() -> "Tensor":
        scores: Tensor = run.model.named.model(*run.inputs.args)[0, -1].double()
        return scores.softmax(-1)

    before = probabilities()
    with edited(run, edits):
        after = probabilities()
    best = dict.fromkeys([*after.topk(CANDIDATES).indices.tolist(), *before.topk(CANDIDATES).indices.tolist()])
    rows = [[trained.tokenizer.token(i), float(before[i]), float(after[i])] for i in best]
    return {"kind": "next", "rows": sorted(rows, key=lambda row: -row[2])}


def _embedding(run: WatchedRun, edits: tuple[Edit, ...]) -> dict[str, Any]:
    import torch.nn.functional as F

    def vectors() -> "Tensor":
        states: Tensor = run.model.named.model(*run.inputs.args, **run.inputs.kwargs).last_hidden_state[0].double()
        return states

    before = vectors()
    with edited(run, edits):
        after = vectors()
    rows = zip(run.names[0][0], F.cosine_similarity(before, after, dim=-1).tolist(), strict=True)
    return {
        "kind": "embedding",
        "similarity": float(F.cosine_similarity(before.mean(0), after.mean(0), dim=0)),
        "rows": [[name, 1.0, cosine] for name, cosine in rows],
    }
