"""The attention doctor: checks that find what looks wrong in recorded calls, each with an example.

| finding | meaning |
|---|---|
| empty rows | queries that see no key: their output is zero in regard, NaN in other implementations |
| attends to padding | weight on keys that are padding |
| sees the future | weight on keys after the query, in a model that should be causal |
| mask inverted | nearly all weight is on padding, or on the future: the mask hides what it should show |
| uniform head | the same weight on every visible key, for every query: the head does nothing |
| one-token head | all weight on one and the same key, for every query |
| not finite | NaN or infinity in queries, keys or weights |
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.watching.call import Call
from regard.watching.exact_weights import WeightBlock

NOTABLE = 1e-4  # smaller weights may be rounding errors
INVERTED = "the mask seems to hide what it should show: check whether True means visible or ignored"


@dataclass(frozen=True)
class Finding:
    """One thing that looks wrong: what, in which call and head, with an example pair of query and key.

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 1)
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> [finding.what for finding in seen.check(causal=True)]
    ['sees the future']
    """

    what: str
    call: str
    head: int | None
    query: int | None
    key: int | None
    message: str

    def __str__(self) -> str:
        head = f", head {self.head}" if self.head is not None else ""
        return f"{self.what}: {self.call or 'the model'}{head}: {self.message}"


def examine(calls: list[Call], *, padding: Any = None, causal: bool = False) -> list[Finding]:
    """Return everything that looks wrong with the calls.

    padding     real keys as booleans (B, S), True = real, or as lengths (B,); None: padding is not checked
    causal      whether the model should be causal
    """
    findings: list[Finding] = []
    for call in calls:
        if not_finite := _find_not_finite(call):
            findings.append(not_finite)
            continue
        findings += _find_empty_rows(call)
        if padding is not None:
            findings += _find_padding(call, padding)
        if causal:
            findings += _find_future(call)
        findings += _find_idle_heads(call)
    return findings


def _find_not_finite(call: Call) -> Finding | None:
    tensors = {"queries": call.q, "keys": call.k} if call.eager_weights is None else {"weights": call.eager_weights}
    for name, x in tensors.items():
        indices = (~x.isfinite()).nonzero()
        if len(indices):
            head, token = int(indices[0, 1]), int(indices[0, 2])
            message = f"{len(indices)} numbers of the {name} are NaN or infinite, the first at token {token}; "
            message += "look for an overflow or a NaN in the layers before"
            return Finding("not finite", call.name, head, token if name != "keys" else None, None, message)
    return None


def _find_empty_rows(call: Call) -> list[Finding]:
    empty = call.statistics.empty
    if not empty.any():
        return []
    b, head, query = (int(n) for n in empty.nonzero()[0])
    message = f"{int(empty.sum())} of {empty.numel()} queries see no key, for example query {query} of batch item {b}; "
    message += "check that the mask leaves each query at least one key"
    return [Finding("empty rows", call.name, head, query, None, message)]


def _find_padding(call: Call, padding: Any) -> list[Finding]:
    real = torch.as_tensor(padding)
    if real.dim() == 1:
        real = torch.arange(call.shape[3]) < real[:, None]
    if real.shape != (call.shape[0], call.shape[3]):
        return []  # cross-attention or a cache: the keys are not those that the padding describes
    hidden = (~real)[:, None, None]  # (B, 1, 1, S)
    advice = "pass the padding mask to the model"
    return _find_weight_on(call, lambda x: hidden[x.batch, :, :, x.keys], "attends to padding", "padding", advice)


def _find_future(call: Call) -> list[Finding]:
    shift = call.shape[3] - call.shape[2]

    def is_later(block: WeightBlock) -> Tensor:
        position = torch.arange(block.rows.start, block.rows.stop)[:, None] + shift
        return torch.arange(block.keys.start, block.keys.stop) > position

    return _find_weight_on(call, is_later, "sees the future", "keys after the query", "add a causal mask")


def _find_weight_on(
    call: Call, is_wrong: Callable[[WeightBlock], Tensor], what: str, where: str, advice: str
) -> list[Finding]:
    """Return a finding for each head with notable weight on the pairs that `is_wrong` marks in a block of weights."""
    batch, heads, length, _ = call.shape
    mass = torch.zeros(batch, heads, length)
    possible = torch.zeros(batch, heads, length, dtype=torch.bool)  # whether the query has such keys at all
    examples: dict[int, tuple[float, int, int]] = {}
    for block in call.weight_blocks():
        rows = (block.batch, block.heads, block.rows)
        wrong = is_wrong(block).expand_as(block.weights)
        wrong_weights = block.weights * wrong
        mass[rows] += wrong_weights.sum(-1)
        possible[rows] |= wrong.any(-1)
        for head in range(*block.heads.indices(heads)):
            weights = wrong_weights[:, head - block.heads.start]
            _, query, key = (int(n) for n in torch.unravel_index(weights.argmax(), weights.shape))
            weight = float(weights.max())
            if weight > examples.get(head, (NOTABLE, 0, 0))[0]:
                examples[head] = weight, block.rows.start + query, block.keys.start + key
    findings = []
    for head, (weight, query, key) in examples.items():
        share = float(mass[:, head][possible[:, head]].mean())
        inverted = share > 0.9
        message = f"query {query} puts {weight:.3f} on key {key}; {share:.0%} of the weight is on {where}; "
        message += INVERTED if inverted else advice
        findings.append(Finding("mask inverted" if inverted else what, call.name, head, query, key, message))
    return findings


def _find_idle_heads(call: Call) -> list[Finding]:
    """Return the heads that spread their weight evenly, or put it all on one key, for every query."""
    stats = call.statistics
    _, heads, length, size = call.shape
    if length < 2 or size < 3:
        return []
    visible = (call.weights(queries=length - 1) > 0).sum(-1).clamp_min(1).float()
    even = (stats.entropy[:, :, -1] - visible.log()).abs() < 1e-3
    findings = []
    for head in range(heads):
        if bool((even[:, head] & (visible[:, head] > 2)).all()) and _is_uniform_in_the_middle(call, head):
            message = "every query spreads its weight evenly over all visible keys, so the head does nothing; "
            message += "check that its query and key projections are loaded and trained"
            findings.append(Finding("uniform head", call.name, head, length - 1, None, message))
        elif float(stats.entropy[:, head].max()) < 0.01 and length > 2:
            position = stats.position[:, head].round()
            if bool((position == position[:, :1]).all()):
                key = int(position[0, 0])
                message = f"every query puts all its weight on key {key}, whatever the query; "
                message += "check for very large scores, or prune the head"
                findings.append(Finding("one-token head", call.name, head, 0, key, message))
    return findings


def _is_uniform_in_the_middle(call: Call, head: int) -> bool:
    weights = call.weights(head=head, queries=[call.shape[2] // 2])[:, 0]
    visible = weights > 0
    largest, smallest = weights.masked_fill(~visible, 0).amax(-1), weights.masked_fill(~visible, 1).amin(-1)
    return bool((largest - smallest < 1e-4).all())
