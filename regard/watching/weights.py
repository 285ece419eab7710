"""Exact weights of a call, only those asked for.

Two ways to the same numbers: `chosen` for any batch items, heads and queries that somebody picks, and `parts`,
which goes once over everything visible in blocks of at most 16 MB. `blocks` are the scores that the parts come from.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import Mask, masks
from regard.attention.kernels.block_plan import Tile, plan_tiles
from regard.attention.masks.custom import split_boolean_tables

if TYPE_CHECKING:
    from regard.watching.call import Call

ELEMENTS = 1 << 22  # scores computed at a time at most, 16 MB
ROWS = 256  # of a head at a time
NEAR = 1 << 18  # scores of several small heads computed together, so that they stay in the cache


class Block(NamedTuple):
    """Scores (heads, rows, keys) of one item of the batch, and where they belong."""

    batch: int
    heads: slice
    rows: slice
    keys: slice
    scores: Tensor
    stairs: bool  # of n rows, row i does not see the last n − 1 − i keys, which are not hidden here
    may_be_empty: bool  # whether a row may see nothing


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
    for b, at, rows, keys, w, stairs, may_be_empty in blocks(call):
        if stairs:
            n = rows.stop - rows.start
            w[..., w.shape[-1] - n :].masked_fill_(torch.ones(n, n, dtype=torch.bool).triu_(1), float("-inf"))
        yield Part(slice(b, b + 1), at, rows, keys, _normalised(w, may_be_empty=may_be_empty)[None])


def blocks(call: "Call") -> Iterator[Block]:
    """The scores of every visible pair once; −inf for hidden ones among them. The blocks share one buffer."""
    batch, heads, length, size = call.shape
    shared = heads // call.k.shape[1]  # heads that share their keys
    rule, tables = split_boolean_tables(call.rule) if call.rule is not None else (None, ())
    added = None if call.added is None else call.added.expand(-1, -1, length, size)
    buffer = torch.empty(max(ELEMENTS, shared * size))
    for tile in (tile for tile in plan_tiles(rule, length, size) if tile.keys):
        stairs = _stairs(tile)
        hides = [] if tile.rule is None or stairs else [tile.rule]
        for b in range(*tile.batch.indices(batch)):
            k_t = call.k[b].float().transpose(1, 2)
            for rows, keys in _chunks(tile, stairs, shared):
                count, width = rows.stop - rows.start, keys.stop - keys.start
                step = max(1, NEAR // (shared * count * width))
                for g in range(0, len(k_t), step):
                    at = slice(g * shared, min(g + step, len(k_t)) * shared)
                    w = buffer[: (at.stop - at.start) * count * width].view(-1, count, width)
                    q = (call.q[b, at, rows].float() * call.scale).reshape(-1, shared * count, call.q.shape[-1])
                    torch.bmm(q, k_t[g : g + step, :, keys], out=w.view(-1, shared * count, width))
                    if added is not None:
                        w += added[b if len(added) > 1 else 0, at if added.shape[1] > 1 else slice(None), rows, keys]
                    for mask in (*hides, *tables):
                        w.masked_fill_(~_seen(mask, b, at, rows, keys, size - length), float("-inf"))
                    may_be_empty = bool(hides or tables) or added is not None
                    yield Block(b, at, rows, keys, w, stairs, may_be_empty)


def _stairs(tile: Tile) -> bool:
    """Whether a tile is causal and nothing else: each row sees one key more than the one before, the last all."""
    end = tile.place + tile.rows.stop - tile.rows.start
    return (
        tile.rule == masks.causal() and len(tile.runs) == 1 and tile.runs[0][0] <= tile.place < tile.runs[0][1] == end
    )


def _chunks(tile: Tile, stairs: bool, shared: int) -> Iterator[tuple[slice, slice]]:
    """The rows of a tile in chunks, each with its keys: under a diagonal, those before the chunk's last row."""
    first, last = tile.runs[0][0], tile.runs[-1][1]
    step = max(1, min(ROWS, ELEMENTS // (shared * (last - first))))
    for start in range(tile.rows.start, tile.rows.stop, step):
        stop = min(start + step, tile.rows.stop)
        reach = tile.place + stop - tile.rows.start if stairs else last
        yield slice(start, stop), slice(first, reach)


def _seen(mask: Mask, b: int, heads: slice, rows: slice, keys: slice, shift: int) -> Tensor:
    """What a mask shows of a block, (heads or 1, rows, keys)."""
    at = torch.arange(heads.start, heads.stop)[:, None, None] if mask.head_count > 1 else torch.tensor(heads.start)
    place = torch.arange(rows.start, rows.stop)[:, None] + shift
    return mask.visible(torch.tensor(b), at, place, torch.arange(keys.start, keys.stop))


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
