"""Exact weights of a call, computed only where they are requested.

    selected        weights of chosen batch items, heads and queries over all keys
    on_keys         weights of every query on a few keys
    at_offset       weight of every query on one neighbour
    weight_blocks   all visible weights, a block at a time

Once the log-sum-exp of a row is known, a single weight is exp(scale · q·k + bias − lse), independent of the other
keys. So `on_keys` and `at_offset` cost a few dot products per query.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.watching.call_inputs import CallInputs, PerQuery
from regard.watching.weights.row_scores import row_scores, row_sinks, score_type, take
from regard.watching.weights.score_blocks import LONG_ROWS, score_blocks
from regard.watching.weights.score_terms import apply_terms, has_tables
from regard.watching.weights.weight_edits import edited_rows

EDITED_WEIGHTS = 1 << 22  # weights of an edited call that are computed at a time


class WeightBlock(NamedTuple):
    """A block of weights (b, h, rows, keys) and its position in the whole (B, H, L, S)."""

    batch: slice
    heads: slice
    rows: slice
    keys: slice
    weights: Float[Tensor, "batch heads rows keys"]
    lse: Float[Tensor, "batch heads rows"] | None = None  # log-sum-exp of scores and sink, if requested


def selected(
    call: CallInputs, b: Int[Tensor, "batch"], h: Int[Tensor, "heads"], i: Int[Tensor, "queries"]
) -> Float[Tensor, "batch heads queries keys"]:
    """Return the weights of the batch items b, heads h and queries i over all keys."""
    call.check_unchanged()
    if call.eager_weights is not None:
        return take(take(take(call.eager_weights, b, 0), h, 1), i, 2).float()
    with torch.no_grad():
        if call.edits:
            return edited_rows(call, b, h, i)
        scores, sinks = row_scores(call, b, h, i), row_sinks(call, b, h, i)
        lse = None if sinks is None else torch.logaddexp(scores.logsumexp(-1), sinks)
        return _softmax_in_place(scores, may_be_empty=has_tables(call) or call.mask is not None, lse=lse)


def on_keys(
    call: CallInputs, keys: Int[Tensor, "chosen"], lse: Callable[[], PerQuery]
) -> Float[Tensor, "batch heads queries chosen"]:
    """Return the weights of every query on the given keys; `lse` is called only if the weights are not known."""
    call.check_unchanged()
    if call.eager_weights is not None:
        return call.eager_weights[..., keys].float()
    if call.edits:
        return torch.cat([block.weights[..., keys] for block in _edited_blocks(call)], 2)
    scores = (call.q.float() * call.factor) @ _keys_of_each_head(call)[:, :, keys].float().transpose(-1, -2)
    b, h, i = (torch.arange(n, device=keys.device) for n in call.shape[:3])
    scores = apply_terms(call, scores, (b[:, None, None, None], h[:, None, None], i[:, None], keys))
    return (scores - _finite(lse())[..., None]).exp()


def at_offset(
    call: CallInputs, offset: int, positions: Int[Tensor, "*batch queries"], lse: Callable[[], PerQuery]
) -> PerQuery:
    """Return the weight of every query on the key `offset` tokens after its position; 0 where there is no such key."""
    call.check_unchanged()
    batch, heads, length, size = call.shape
    neighbours = (positions + offset).expand(batch, length)
    exists = ((neighbours >= 0) & (neighbours < size))[:, None]
    b = torch.arange(batch, device=positions.device)[:, None, None]
    h = torch.arange(heads, device=positions.device)[:, None]
    i, j = torch.arange(length, device=positions.device), neighbours.clamp(0, size - 1)[:, None]
    if call.eager_weights is not None:
        return call.eager_weights[b, h, i, j].float() * exists
    if call.edits:
        j = j.expand(batch, heads, length)[..., None]
        parts = [x.weights.gather(-1, j[:, :, x.rows])[..., 0] for x in _edited_blocks(call)]
        return torch.cat(parts, 2).masked_fill(~exists, 0.0)
    keys = call.k[b, h // (heads // call.k.shape[1]), j].float()  # (B, H, L, d_k)
    scores = apply_terms(call, (call.q.float() * keys).sum(-1).mul_(call.factor), (b, h, i, j))
    return (scores - _finite(lse())).exp().masked_fill(~exists, 0.0)


def weight_blocks(call: CallInputs, *, with_lse: bool = False) -> Iterator[WeightBlock]:
    """Yield every visible weight once. The blocks share one buffer: use a block before requesting the next."""
    call.check_unchanged()
    if call.eager_weights is not None:
        for b in range(call.shape[0]):
            heads, rows, keys = (slice(0, size) for size in call.shape[1:])
            yield WeightBlock(slice(b, b + 1), heads, rows, keys, call.eager_weights[b : b + 1].float())
        return
    if call.edits:
        yield from _edited_blocks(call)
        return
    sinks = None if call.sinks is None else call.sinks.expand(call.shape[:3])
    for b, heads, rows, keys, scores, triangular, may_be_empty in score_blocks(call):
        if triangular:
            n = rows.stop - rows.start
            later = torch.ones(n, n, dtype=torch.bool, device=scores.device).triu_(1)
            scores[..., scores.shape[-1] - n :].masked_fill_(later, float("-inf"))
        if not with_lse and sinks is None:
            yield WeightBlock(
                slice(b, b + 1), heads, rows, keys, _softmax_in_place(scores, may_be_empty=may_be_empty)[None]
            )
            continue
        weights, lse = _softmax_with_lse(scores, None if sinks is None else sinks[b, heads, rows])
        yield WeightBlock(slice(b, b + 1), heads, rows, keys, weights[None], lse[None])


def _edited_blocks(call: CallInputs) -> Iterator[WeightBlock]:
    """Yield blocks of rows over all keys, with the edits of the call; their log-sum-exp is 0, as it is not known."""
    batch, heads, _, size = call.shape
    step = max(1, EDITED_WEIGHTS // max(1, batch * heads * size))
    b, h, i = (torch.arange(n, device=call.like.device) for n in call.shape[:3])
    for rows in i.split(step):
        weights = selected(call, b, h, rows).to(score_type(call))
        start = int(rows[0])
        places = slice(0, batch), slice(0, heads), slice(start, start + len(rows)), slice(0, size)
        yield WeightBlock(*places, weights, torch.zeros_like(weights[..., 0]))


def _keys_of_each_head(call: CallInputs) -> Float[Tensor, "batch heads keys d_k"]:
    """Return the keys of every query head, a view where heads share keys."""
    group = call.shape[1] // call.k.shape[1]
    return call.k if group == 1 else call.k[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)


def _finite(lse: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return the log-sum-exp with 0 for empty rows, whose weights are exp(−inf − 0) = 0."""
    return lse.masked_fill(lse.isneginf(), 0.0)


def _softmax_in_place(
    scores: Float[Tensor, "... keys"], *, may_be_empty: bool, lse: Tensor | None = None
) -> Float[Tensor, "... keys"]:
    """Replace the scores by their softmax; an empty row becomes 0. `lse`: log-sum-exp of each row with its sink."""
    if lse is not None:
        return scores.sub_(_finite(lse)[..., None]).exp_()
    if not may_be_empty:
        return torch.softmax(scores, -1, out=scores)
    empty = scores.isneginf().all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill_(empty, 0.0), -1, out=scores).masked_fill_(empty, 0.0)


def _softmax_with_lse(
    scores: Float[Tensor, "*rows keys"], sinks: Float[Tensor, "*rows"] | None
) -> tuple[Float[Tensor, "*rows keys"], Float[Tensor, "*rows"]]:
    """Replace the scores by their softmax; return it and the log-sum-exp of each row with its sink.

    The largest score of a long row is subtracted only if it is large: the rounding of the difference would be the
    largest error of the mean position.
    """
    largest = scores.amax(-1, keepdim=True)
    kept = (largest.abs() <= 32) & (scores.shape[-1] > LONG_ROWS)
    shift = largest.masked_fill(kept | largest.isneginf(), 0.0)
    e = scores.sub_(shift).exp_()
    lse = shift[..., 0] + e.sum(-1).log()
    if sinks is not None:
        lse = torch.logaddexp(lse, sinks.to(lse.dtype))
    return e.mul_((shift - _finite(lse)[..., None]).exp()), lse
