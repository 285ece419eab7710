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
from regard.watching.score_blocks import score_blocks


class WeightBlock(NamedTuple):
    """A block of weights (b, h, rows, keys) and its position in the whole (B, H, L, S)."""

    batch: slice
    heads: slice
    rows: slice
    keys: slice
    weights: Float[Tensor, "batch heads rows keys"]


def selected(
    call: CallInputs, b: Int[Tensor, "batch"], h: Int[Tensor, "heads"], i: Int[Tensor, "queries"]
) -> Float[Tensor, "batch heads queries keys"]:
    """Return the weights of the batch items b, heads h and queries i over all keys."""
    call.check_unchanged()
    if call.eager_weights is not None:
        return call.eager_weights[b][:, h][:, :, i].float()
    _, heads, length, size = call.shape
    with torch.no_grad():
        q = _take(_take(_take(call.q, b, 0), h, 1), i, 2).float()
        k = _take(_take(call.k, b, 0), h // (heads // call.k.shape[1]), 1).float()
        scores = (q * call.scale) @ k.transpose(-1, -2)
        if call.bias is not None:
            bias = call.bias.expand(-1, -1, length, size)
            bias = bias[b] if bias.shape[0] > 1 else bias
            scores += (bias[:, h] if bias.shape[1] > 1 else bias)[:, :, i].to(scores.dtype)
        if call.mask is not None:
            position, keys = (i + size - length)[:, None], torch.arange(size, device=i.device)
            visible = call.mask.visible(b[:, None, None, None], h[:, None, None], position, keys)
            scores.masked_fill_(~visible, float("-inf"))
        return _softmax_in_place(scores, may_be_empty=call.bias is not None or call.mask is not None)


def on_keys(
    call: CallInputs, keys: Int[Tensor, "chosen"], lse: Callable[[], PerQuery]
) -> Float[Tensor, "batch heads queries chosen"]:
    """Return the weights of every query on the given keys; `lse` is called only if the weights are not known."""
    call.check_unchanged()
    if call.eager_weights is not None:
        return call.eager_weights[..., keys].float()
    scores = call.scale * call.q.float() @ _keys_of_each_head(call)[:, :, keys].float().transpose(-1, -2)
    return _weights_of_pairs(call, scores, torch.arange(call.shape[2])[:, None], keys, lse())


def at_offset(call: CallInputs, offset: int, lse: Callable[[], PerQuery]) -> PerQuery:
    """Return the weight of every query on the key `offset` tokens after it; 0 where there is no such key."""
    call.check_unchanged()
    batch, heads, length, size = call.shape
    neighbour = torch.arange(size - length, size) + offset
    exists = (neighbour >= 0) & (neighbour < size)
    queries, keys = exists.nonzero()[:, 0], neighbour[exists]
    weights = torch.zeros(batch, heads, length)
    if call.eager_weights is not None:
        weights[:, :, queries] = call.eager_weights[:, :, queries, keys].float()
        return weights
    scores = call.scale * (call.q[:, :, queries].float() * _keys_of_each_head(call)[:, :, keys].float()).sum(-1)
    weights[:, :, queries] = _weights_of_pairs(call, scores, queries, keys, lse())
    return weights


def weight_blocks(call: CallInputs) -> Iterator[WeightBlock]:
    """Yield every visible weight once. The blocks share one buffer: use a block before requesting the next."""
    call.check_unchanged()
    if call.eager_weights is not None:
        batch, heads, rows, keys = (slice(0, size) for size in call.shape)
        yield WeightBlock(batch, heads, rows, keys, call.eager_weights.float())
        return
    for b, heads, rows, keys, scores, triangular, may_be_empty in score_blocks(call):
        if triangular:
            n = rows.stop - rows.start
            scores[..., scores.shape[-1] - n :].masked_fill_(torch.ones(n, n, dtype=torch.bool).triu_(1), float("-inf"))
        weights = _softmax_in_place(scores, may_be_empty=may_be_empty)[None]
        yield WeightBlock(slice(b, b + 1), heads, rows, keys, weights)


def _keys_of_each_head(call: CallInputs) -> Float[Tensor, "batch heads keys d_k"]:
    """Return the keys of every query head, a view where heads share keys."""
    group = call.shape[1] // call.k.shape[1]
    return call.k if group == 1 else call.k[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)


def _weights_of_pairs(
    call: CallInputs,
    scores: Float[Tensor, "batch heads *pairs"],
    queries: Int[Tensor, "*#pairs"],
    keys: Int[Tensor, "*#pairs"],
    lse: PerQuery,
) -> Float[Tensor, "batch heads *pairs"]:
    """Return exp(score + bias − lse) for pairs of queries and keys; 0 where the mask hides the pair."""
    *_, length, size = call.shape
    if call.bias is not None:
        scores = scores + call.bias.expand(-1, -1, length, size)[:, :, queries, keys]
    if call.mask is not None:
        ones = [1] * (scores.dim() - 2)
        b, h = torch.arange(call.shape[0]).view(-1, 1, *ones), torch.arange(call.shape[1]).view(-1, *ones)
        visible = call.mask.visible(b, h, queries + size - length, keys)
        scores = scores.masked_fill(~visible, float("-inf"))
    return (scores - lse.masked_fill(lse.isneginf(), 0.0)[:, :, queries]).exp()


def _softmax_in_place(scores: Float[Tensor, "... keys"], *, may_be_empty: bool) -> Float[Tensor, "... keys"]:
    """Replace the scores by their softmax; an empty row becomes 0."""
    if not may_be_empty:
        return torch.softmax(scores, -1, out=scores)
    empty = scores.isneginf().all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill_(empty, 0.0), -1, out=scores).masked_fill_(empty, 0.0)


def _take(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """Return x at the indices; a view if the index selects everything in order."""
    if len(index) == x.shape[dim] and (len(index) == 0 or bool((index == torch.arange(len(index))).all())):
        return x
    return x.index_select(dim, index)
