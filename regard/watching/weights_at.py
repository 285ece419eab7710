"""Weights at chosen places, at the cost of those places alone.

Once the log-sum-exp of a row is known, any single weight of it is exp(scale · q·k + added − lse): no other key
takes part. So the weight of every query on a few keys, or on its own neighbour, costs a few dot products.
"""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

if TYPE_CHECKING:
    from regard.watching.call import Call


def on_keys(call: "Call", keys: Int[Tensor, "n"]) -> Float[Tensor, "b h l n"]:
    """The weights of every query on these keys."""
    *_, length, size = call.shape
    if call.eager_maps is not None:
        return call.eager_maps[..., keys].float()
    k = _by_query_head(call)[:, :, keys].float()
    scores = call.scale * call.q.float() @ k.transpose(-1, -2)
    if call.added is not None:
        scores = scores + call.added.expand(-1, -1, length, size)[..., keys]
    if call.rule is not None:
        place = torch.arange(size - length, size)[:, None]
        scores = scores.masked_fill(~_visible(call, place, keys), float("-inf"))
    return _weight(scores, call.lse[..., None])


def beside(call: "Call", offset: int) -> Float[Tensor, "b h l"]:
    """The weight of every query on the key so many places after its own; 0 where there is no such key."""
    batch, heads, length, size = call.shape
    place = torch.arange(size - length, size)
    inside = (place + offset >= 0) & (place + offset < size)
    queries, keys = inside.nonzero()[:, 0], (place + offset)[inside]
    out = torch.zeros(batch, heads, length)
    if call.eager_maps is not None:
        out[:, :, queries] = call.eager_maps[:, :, queries, keys].float()
        return out
    scores = call.scale * (call.q[:, :, queries].float() * _by_query_head(call)[:, :, keys].float()).sum(-1)
    if call.added is not None:
        scores = scores + call.added.expand(-1, -1, length, size)[:, :, queries, keys]
    if call.rule is not None:
        scores = scores.masked_fill(~_visible(call, place[queries], keys), float("-inf"))
    out[:, :, queries] = _weight(scores, call.lse[:, :, queries])
    return out


def _by_query_head(call: "Call") -> Tensor:
    """The keys, one for every query head: a view, also where heads share them."""
    group = call.shape[1] // call.k.shape[1]
    return call.k if group == 1 else call.k[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)


def _visible(call: "Call", place: Tensor, keys: Tensor) -> Tensor:
    """Whether these pairs of places are visible, (B, H, *pairs)."""
    assert call.rule is not None
    pairs = [1] * max(place.dim(), keys.dim())
    b, h = (torch.arange(n).view(-1, *trailing) for n, trailing in zip(call.shape, ([1, *pairs], pairs), strict=False))
    return call.rule.visible(b, h, place, keys)


def _weight(scores: Tensor, lse: Tensor) -> Tensor:
    return (scores - lse.masked_fill(lse.isneginf(), 0.0)).exp()
