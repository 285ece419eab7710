"""Attention with softcap, a block of rows at a time, forward and backward, in plain matrix products.

torch's fused kernels have no tanh. A block of scores small enough for the CPU cache is computed, capped, exponentiated
and multiplied by the values in place:

    t = tanh(scale/c · q kᵀ)        P = exp(c·t + mask − lse)        o = P v

    dV += Pᵀ dO      dS = P ∘ (dO Vᵀ − rowsum(dO ∘ O) + dlse) ∘ (1 − t²)      dQ = scale · dS K      dK += scale · dSᵀ Q

Backward computes the block again. Heads that share keys are rows of one product. Memory is linear in length.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.kernels.additive_mask import TileMasks, take_runs
from regard.attention.kernels.block_plan import Plan, Tile
from regard.attention.kernels.huge_pages import use_huge_pages
from regard.attention.masks.causal_and_window import Causal
from regard.extras import installed

BLOCK_SCORES = 1 << 19  # scores of a block: 2 MB, which stay in the caches of a core
FEWEST_ROWS, MOST_ROWS = 16, 128  # rows of a head in a block
COMPILED_FROM = 1 << 22  # number of scores from which compiling a loop, once on a machine, is worth its time
LOG2_E = 1.4426950408889634
SAFE_SOFTCAP = 64.0  # up to this cap exp() needs no subtraction of the maximum: e⁶⁴ · 2³⁰ < 3.4e38

Queries = Float[Tensor, "b h l d"]
Keys = Float[Tensor, "b g s d"]
Values = Float[Tensor, "b g s d_v"]


def split_rows(plan: Plan, group: int) -> Plan:
    """Return the plan with tiles of so few rows that a block of scores fits the cache; `group` heads share keys."""
    tiles: list[Tile] = []
    for tile in plan:
        most = BLOCK_SCORES // (group * max(1, tile.keys))
        step = max(FEWEST_ROWS, min(MOST_ROWS, most // 8 * 8))
        for start in range(tile.rows.start, tile.rows.stop, step):
            stop = min(start + step, tile.rows.stop)
            position = tile.position + start - tile.rows.start
            runs = ((tile.runs[0][0], position + stop - start),) if tile.is_triangle else tile.runs
            tiles.append(replace(tile, rows=slice(start, stop), position=position, runs=runs))
    return tuple(tiles)


class _Block(NamedTuple):
    """Some key/value heads of one batch item in one tile."""

    item: int
    groups: slice  # key/value heads
    tile: Tile
    shape: tuple[int, int, int, int]  # key/value heads, query heads of each, rows, keys
    added: Tensor | None  # broadcasts to the shape
    triangle: Tensor | None  # added to the last columns only


def forward(
    q: Queries, k: Keys, v: Values, masks: TileMasks, scale: float, softcap: float
) -> tuple[Float[Tensor, "b h l d_v"], Float[Tensor, "b h l"]]:
    """Return output and log-sum-exp, −inf for empty rows."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    out = use_huge_pages(q.new_empty(*q.shape[:3], v.shape[-1]))
    lse = q.new_empty(q.shape[:3], dtype=dtype)
    for tile in masks.plan:
        if not tile.runs:
            out[tile.batch, :, tile.rows], lse[tile.batch, :, tile.rows] = 0, float("-inf")
    unit = _unit(masks)
    k, v, safe = k.to(dtype), v.to(dtype), softcap <= SAFE_SOFTCAP and unit != 1
    buffer, tanh = _buffer(q, k, masks, dtype), _tanh_function(q, k, dtype)
    for block in _blocks(q, k, masks):
        keys, values = _keys(k, block), _keys(v, block)
        scores = tanh(_fill(buffer, q, keys, block, scale / softcap, dtype), softcap * unit)
        _mask(scores, block)
        largest = None
        if not safe:
            largest = scores.amax(-1, keepdim=True)
            scores.sub_(largest.masked_fill_(largest.isneginf(), 0.0))
        total = _exp(scores, unit).sum(-1, keepdim=True)
        row_lse = total.log() if largest is None else total.log().add_(largest, alpha=1 / unit)
        result = torch.bmm(scores, values).div_(total.masked_fill_(total == 0, 1.0))
        _rows(out, block, k)[:] = result.view(*block.shape[:3], -1)
        _rows(lse[..., None], block, k)[:] = row_lse.view(*block.shape[:3], 1)
    return out, lse


def backward(
    grad: Float[Tensor, "b h l d_v"],
    grad_lse: Float[Tensor, "b h l"] | None,
    q: Queries,
    k: Keys,
    v: Values,
    out: Float[Tensor, "b h l d_v"],
    lse: Float[Tensor, "b h l"],
    masks: TileMasks,
    scale: float,
    softcap: float,
) -> tuple[Queries, Keys, Values]:
    """Return the gradients of q, k and v."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    dq = torch.zeros_like(q) if any(not tile.runs for tile in masks.plan) else torch.empty_like(q)
    dk, dv = (x.new_zeros(x.shape, dtype=dtype) for x in (k, v))
    mean = (grad.to(dtype) * out).sum(-1, keepdim=True)  # Σ_j P dP of each row
    if grad_lse is not None:
        mean = mean - grad_lse[..., None].to(dtype)
    unit = _unit(masks)
    shift = lse.masked_fill(lse.isneginf(), 0.0).mul_(unit)[..., None]
    keys_all, values_all = k.to(dtype), v.to(dtype)
    buffers, tanh_of = [_buffer(q, k, masks, dtype) for _ in range(3)], _tanh_function(q, k, dtype)
    for block in _blocks(q, k, masks):
        n, group, rows, _ = block.shape
        keys, values = _keys(keys_all, block), _keys(values_all, block)
        tanh = tanh_of(_fill(buffers[0], q, keys, block, scale / softcap, dtype), 1.0)
        weights = torch.mul(tanh, softcap * unit, out=buffers[1][: tanh.numel()].view_as(tanh))
        _mask(weights, block)
        _exp(weights.sub_(_rows(shift, block, k).reshape(n, group * rows, 1)), unit)
        d_out = _rows(grad, block, k).reshape(n, group * rows, -1).to(dtype)
        ds = torch.bmm(d_out, values.transpose(1, 2), out=buffers[2][: tanh.numel()].view_as(tanh))
        ds.sub_(_rows(mean, block, k).reshape(n, group * rows, 1)).mul_(weights)
        ds.addcmul_(ds, tanh.square_(), value=-1)
        queries = _rows(q, block, k).reshape(n, group * rows, -1).to(dtype)
        _rows(dq, block, k)[:] = torch.bmm(ds, keys).mul_(scale).view(n, group, rows, -1)
        at = 0
        for start, stop in block.tile.runs:
            columns = slice(at, at + stop - start)
            dk[block.item, block.groups, start:stop].baddbmm_(ds[..., columns].transpose(1, 2), queries)
            dv[block.item, block.groups, start:stop].baddbmm_(weights[..., columns].transpose(1, 2), d_out)
            at = columns.stop
    return dq, dk.mul_(scale).to(k.dtype), dv.to(v.dtype)


def _blocks(q: Tensor, k: Tensor, masks: TileMasks) -> Iterator[_Block]:
    """Yield the blocks of all tiles that have keys."""
    batch, groups = k.shape[:2]
    group = q.shape[1] // groups
    triangles: dict[int, Tensor] = {}
    for tile in masks.plan:
        if not tile.runs:
            continue
        rows, keys = tile.rows.stop - tile.rows.start, tile.keys
        added, triangle = None, None
        if _only_hides(masks) and _ends_at_last_row(tile):
            if rows not in triangles:
                triangles[rows] = q.new_full((rows, rows), float("-inf"), dtype=torch.float32).triu_(1)
            triangle = triangles[rows]
        else:
            added = masks.of(tile)
        step = max(1, BLOCK_SCORES // (group * rows * keys))
        for place, item in enumerate(range(*tile.batch.indices(batch))):
            for start in range(0, groups, step):
                part = slice(start, min(start + step, groups))
                own = added
                if own is not None:
                    own = own[place if own.shape[0] > 1 else 0]
                    own = own.unflatten(0, (groups, group))[part] if own.shape[0] > 1 else own[None]
                yield _Block(item, part, tile, (part.stop - start, group, rows, keys), own, triangle)


def _ends_at_last_row(tile: Tile) -> bool:
    """Whether the mask is causal and hides, of the keys of the tile, only those after each row's own key."""
    end = tile.position + tile.rows.stop - tile.rows.start
    return (
        isinstance(tile.rule, Causal)
        and len(tile.runs) == 1
        and tile.runs[0][0] <= tile.position < end == tile.runs[0][1]
    )


def _buffer(q: Tensor, k: Tensor, masks: TileMasks, dtype: torch.dtype) -> Float[Tensor, " size"]:
    group = q.shape[1] // k.shape[1]
    most = max((group * (tile.rows.stop - tile.rows.start) * tile.keys for tile in masks.plan), default=0)
    return q.new_empty(max(most, min(BLOCK_SCORES, most * k.shape[1])), dtype=dtype)


def _keys(x: Keys, block: _Block) -> Float[Tensor, "n keys d"]:
    return take_runs(x[block.item, block.groups], block.tile.runs, 1)


def _rows(x: Queries, block: _Block, k: Tensor) -> Float[Tensor, "n group rows d"]:
    """Return the block's rows of a tensor of queries, a view."""
    return x[block.item, :, block.tile.rows].unflatten(0, (k.shape[1], -1))[block.groups]


def _fill(
    buffer: Tensor, q: Queries, keys: Float[Tensor, "n keys d"], block: _Block, scale: float, dtype: torch.dtype
) -> Float[Tensor, "n rows keys"]:
    """Return scale · q kᵀ of the block, in the buffer."""
    n, group, rows, count = block.shape
    queries = q[block.item, :, block.tile.rows].unflatten(0, (-1, group))[block.groups]
    scaled = (queries.to(dtype) * scale).reshape(n, group * rows, -1)
    return torch.bmm(scaled, keys.transpose(1, 2), out=buffer[: n * group * rows * count].view(n, group * rows, count))


def _unit(masks: TileMasks) -> float:
    """Return log₂ e if scores can be computed in this unit, so that 2^s, which is faster, replaces e^s; else 1."""
    return LOG2_E if _only_hides(masks) else 1.0


def _only_hides(masks: TileMasks) -> bool:
    """Whether what is added to the scores is 0 or −inf."""
    return masks.table is None and masks.bias is None


def _exp(scores: Tensor, unit: float) -> Tensor:
    return scores.exp_() if unit == 1 else scores.exp2_()


def _tanh_function(q: Queries, k: Keys, dtype: torch.dtype) -> Callable[[Tensor, float], Tensor]:
    """Return a function that replaces x by factor · tanh x: a compiled loop for many scores on one thread."""
    many = q.shape[:3].numel() * k.shape[2] >= COMPILED_FROM
    if not (many and q.is_cpu and dtype == torch.float32 and torch.get_num_threads() == 1 and installed("numba")):
        return lambda x, factor: x.tanh_().mul_(factor)
    write_tanh = _compiled_tanh()

    def apply(x: Tensor, factor: float) -> Tensor:
        write_tanh(x.view(-1).numpy(), np.float32(factor))
        return x

    return apply


@cache
def _compiled_tanh() -> Callable[..., None]:
    from regard.attention.kernels.changed_scores.compiled_tanh import write_tanh
    from regard.numba_functions import announce_compilation

    with announce_compilation("attention with softcap"):
        write_tanh(np.zeros(1, np.float32), np.float32(1))
    return write_tanh


def _mask(scores: Float[Tensor, "n rows keys"], block: _Block) -> None:
    if block.triangle is not None:
        scores.view(block.shape)[..., -block.shape[2] :] += block.triangle
    elif block.added is not None:
        scores.view(block.shape).add_(block.added)
