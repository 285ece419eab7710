"""Detectors of the head atlas: the mean weight of each head on the place that its kind looks at.

| kind | test | weight of a query on |
|---|---|---|
| previous token | duplicates | the token before |
| duplicate token | duplicates | the same token earlier |
| induction | repeated | the token after the same token earlier |
| retrieval | needles | the value of the needle, from its key at the end |
| sink | duplicates | the first token |
| positional | duplicates | the same places as in a text of other tokens: Σ_j min(w_j, w'_j) |

A head is positional if it looks at places whatever the tokens are, and is neither a sink nor a head for the previous
token. In cross-attention the places are those of the source, which has the same tokens.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.watching.call import Call
from regard.watching.head_atlas.test_inputs import TestInputs
from regard.watching.recording import Recording

KINDS = ("previous token", "duplicate token", "induction", "retrieval", "sink", "positional")
ROWS = 64  # queries of each sequence that are examined

Scores = dict[str, list[Float[Tensor, "heads"]]]  # of each call, by kind


def score_heads(recordings: dict[str, Recording], inputs: TestInputs) -> Scores:
    """Return the scores of every head by kind; `recordings` are those of the tests."""
    scores: Scores = {kind: [] for kind in KINDS}
    calls = zip(*(recordings[name].calls for name in ("repeated", "duplicates", "needles")), strict=True)
    for repeated, duplicates, needles in calls:
        _check_length(repeated, inputs.repeated.shape[1])
        rows = _spread(inputs.start + inputs.unit, inputs.start + 2 * inputs.unit)
        scores["induction"].append(_mean(_on(repeated, rows, rows - inputs.unit + 1)))
        rows = _spread(inputs.start + 2, inputs.start + 2 * inputs.unit)
        weights = duplicates.weights(queries=rows.tolist())
        earlier = inputs.earlier[:, rows]
        same = weights.gather(
            -1, earlier.clamp_min(0).to(weights.device)[:, None, :, None].expand(*weights.shape[:3], 1)
        )
        known = (earlier >= 0).to(weights.device)[:, None]
        scores["duplicate token"].append((same[..., 0] * known).sum((0, 2)) / known.sum((0, 2)))
        scores["previous token"].append(_mean(_pick(weights, rows - 1)))
        scores["sink"].append(weights[..., 0].mean((0, 2)))
        overlap = torch.minimum(weights, weights.roll(1, 0)).sum(-1).mean((0, 2))
        scores["positional"].append(overlap)
        last = needles.weights(queries=needles.shape[2] - 1)  # (B, H, S)
        scores["retrieval"].append(last[torch.arange(len(last)), :, inputs.needle].mean(0))
    return {kind: [values.cpu() for values in by_call] for kind, by_call in scores.items()}


def _check_length(call: Call, length: int) -> None:
    if call.shape[2] != length or call.shape[3] != length or call.folded:
        raise ValueError(
            f"the atlas needs layers that attend to the {length} tokens of a test, but call {call.name!r} has "
            f"{call.shape[2]} queries and {call.shape[3]} keys; pass run=, a function that calls the model without a "
            "cache or a prompt"
        )


def _spread(first: int, end: int) -> Tensor:
    """Return at most `ROWS` places from `first` to before `end`, evenly spaced."""
    count = min(ROWS, end - first)
    return torch.linspace(first, end - 1, count).round().long()


def _on(call: Call, rows: Tensor, keys: Tensor) -> Float[Tensor, "batch heads rows"]:
    return _pick(call.weights(queries=rows.tolist()), keys)


def _pick(weights: Float[Tensor, "batch heads rows keys"], keys: Tensor) -> Float[Tensor, "batch heads rows"]:
    """Return the weight of each row on its key."""
    return weights[:, :, torch.arange(len(keys)), keys.to(weights.device)]


def _mean(weights: Float[Tensor, "batch heads rows"]) -> Float[Tensor, "heads"]:
    return weights.mean((0, 2))
