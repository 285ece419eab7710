"""Exact weights of a call, only those asked for.

Two ways to the same numbers: `chosen` for any batch items, heads and queries that somebody picks, and `parts`,
which goes once over everything visible in blocks of 4 MB, for statistics that no fused kernel computes.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import Tile, planned

if TYPE_CHECKING:
    from regard.watch.call import Call

ELEMENTS = 1 << 20  # weights computed at a time, 4 MB


class Part(NamedTuple):
    """Some weights (b, h, rows, keys), and where they belong."""

    batch: slice
    heads: slice
    rows: slice
    keys: slice
    weights: Tensor


def chosen(call: "Call", b: Int[Tensor, "b"], h: Int[Tensor, "h"], i: Int[Tensor, "l"]) -> Float[Tensor, "b h l s"]:
    """The weights of these batch items, heads and queries over all keys."""
    maps = call.eager_maps
    if maps is not None:
        return maps[b][:, h][:, :, i].float()
    _, heads, length, size = call.shape
    with torch.no_grad():
        q = _take(_take(_take(call.q, b, 0), h, 1), i, 2).float()
        k = _take(_take(call.k, b, 0), h // (heads // call.k.shape[1]), 1).float()
        scores = (q * call.scale) @ k.transpose(-1, -2)
        if call.added is not None:
            scores += _added(call.added.expand(-1, -1, length, size), b, h)[:, :, i].to(scores.dtype)
        if call.rule is not None:
            place, keys = (i + size - length)[:, None], torch.arange(size, device=i.device)
            seen = call.rule.visible(b[:, None, None, None], h[:, None, None], place, keys)
            scores.masked_fill_(~seen, float("-inf"))
        return _normalised(scores, may_be_empty=call.added is not None or call.rule is not None)


def parts(call: "Call") -> Iterator[Part]:
    """Every visible weight once: blocks of queries with the keys that they can see.

    The parts share one buffer: use each before asking for the next.
    """
    batch, heads, length, size = call.shape
    maps = call.eager_maps
    if maps is not None:
        yield Part(slice(0, batch), slice(0, heads), slice(0, length), slice(0, size), maps.float())
        return
    group = heads // call.k.shape[1]
    added = None if call.added is None else call.added.expand(-1, -1, length, size)
    buffer = torch.empty(max(ELEMENTS, size))
    for tile in (tile for tile in planned(call.rule, length, size) if tile.runs):
        for b in range(*tile.batch.indices(batch)):
            for h in range(heads):
                q, k_t = call.q[b, h].float() * call.scale, call.k[b, h // group].float().transpose(0, 1)
                for rows, keys in _chunks(tile):
                    count = rows.stop - rows.start
                    w = buffer[: count * (keys.stop - keys.start)].view(count, -1)
                    torch.mm(q[rows], k_t[:, keys], out=w)
                    if added is not None:
                        w += added[b if len(added) > 1 else 0, h if added.shape[1] > 1 else 0, rows, keys]
                    hides = _hide(w, tile, (b, h), rows, keys, size - length)
                    _normalised(w, may_be_empty=hides or added is not None)
                    yield Part(slice(b, b + 1), slice(h, h + 1), rows, keys, w[None, None])


def _chunks(tile: Tile) -> Iterator[tuple[slice, slice]]:
    """The rows of a tile in chunks, each with its keys: under a diagonal, those before the chunk's last row."""
    first, last = tile.runs[0][0], tile.runs[-1][1]
    start = tile.rows.start
    while start < tile.rows.stop:
        step = max(1, min(128, ELEMENTS // max(1, last - first)))
        stop = min(start + step, tile.rows.stop)
        reach = min(last, tile.place + stop - tile.rows.start) if tile.triangle else last
        yield slice(start, stop), slice(first, reach)
        start = stop


def _hide(w: Tensor, tile: Tile, at: tuple[int, int], rows: slice, keys: slice, shift: int) -> bool:
    """Hide in place what the tile hides, and say whether a row may be left with nothing."""
    if tile.triangle:  # only the square at the end has hidden pairs, and no row is empty
        n = rows.stop - rows.start
        w[:, w.shape[1] - n :].masked_fill_(torch.ones(n, n, dtype=torch.bool).triu_(1), float("-inf"))
        return False
    if tile.rule is None:
        return False
    place = torch.arange(rows.start, rows.stop)[:, None] + shift
    seen = tile.rule.visible(torch.tensor(at[0]), torch.tensor(at[1]), place, torch.arange(keys.start, keys.stop))
    w.masked_fill_(~seen, float("-inf"))
    return True


def _normalised(scores: Float[Tensor, "... s"], *, may_be_empty: bool) -> Float[Tensor, "... s"]:
    """Softmax in place; a row that sees nothing becomes 0."""
    if not may_be_empty:
        return torch.softmax(scores, -1, out=scores)
    empty = scores.isneginf().all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill_(empty, 0.0), -1, out=scores).masked_fill_(empty, 0.0)


def _added(added: Tensor, b: Tensor, h: Tensor) -> Tensor:
    added = added[b] if added.shape[0] > 1 else added
    return added[:, h] if added.shape[1] > 1 else added


def _take(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """x at the indices; a view where that is all of them."""
    if len(index) == x.shape[dim] and (len(index) == 0 or bool((index == torch.arange(len(index))).all())):
        return x
    return x.index_select(dim, index)
