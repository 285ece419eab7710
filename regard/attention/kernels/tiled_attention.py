"""Attention tile by tile, forward and backward, on torch's fused CPU kernel or the kernel of another device.

Forward, a tile is the block of queries `rows` with the keys that any of them sees:

    o, lse = kernel(q[rows], k[runs], v[runs], mask inside the tile)

All visible keys of a query are in its one tile, so its softmax is complete and nothing has to be merged.

Backward, with output o and log-sum-exp of the whole row, any subset of the keys gives its exact part of the gradients:

    P = exp(scale·q·kᵀ + mask − lse)       dV += Pᵀ dO       dP = dO Vᵀ
    dS = P ∘ (dP − rowsum(dO ∘ O) + dlse)  dQ += scale · dS K       dK += scale · dSᵀ Q

Therefore keys can be processed a few hundred at a time, where the kernel is fastest.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention.kernels import device_kernel
from regard.attention.kernels.additive_mask import TileMasks, take_runs
from regard.attention.kernels.block_plan import Run, Tile
from regard.attention.kernels.huge_pages import use_huge_pages
from regard.attention.kernels.private_torch_operators import flash_backward, flash_forward, flash_is_exact

BACKWARD_KEYS = 368  # per call; six calls of 344 keys take 0.94 of the time of one of 2,048 (bench/kernel.py)


def forward(
    q: Float[Tensor, "b h l d"],
    k: Float[Tensor, "b g s d"],
    v: Float[Tensor, "b g s d"],
    masks: TileMasks,
    scale: float,
    mark_empty: bool,
) -> tuple[Float[Tensor, "b h l d"], Float[Tensor, "b h l"], Float[Tensor, "b h l"]]:
    """Return output, log-sum-exp with 0 for empty rows (for `backward`), and log-sum-exp with −inf for empty rows."""
    tiles = masks.plan
    if len(tiles) == 1 and tiles[0].batch == slice(None) and tiles[0].keys == k.shape[2]:
        out, lse = _forward_tile(q, k, v, masks, tiles[0], scale)
        return out, lse, _mark_empty_rows(lse, masks, tiles[0]) if mark_empty else lse
    out, lse = use_huge_pages(torch.empty_like(q)), q.new_empty(q.shape[:3], dtype=_accumulator(q.dtype))
    true_lse = torch.empty_like(lse) if mark_empty else lse
    for tile in tiles:
        rows = (tile.batch, slice(None), tile.rows)
        if not tile.runs:
            out[rows], lse[rows] = 0, 0
            if mark_empty:
                true_lse[rows] = float("-inf")
            continue
        keys, values = take_runs(k[tile.batch], tile.runs, 2), take_runs(v[tile.batch], tile.runs, 2)
        tile_out, tile_lse = _forward_tile(q[rows], keys, values, masks, tile, scale)
        out[rows], lse[rows] = tile_out, tile_lse
        if mark_empty:
            true_lse[rows] = _mark_empty_rows(tile_lse, masks, tile)
    return out, lse, true_lse


def _forward_tile(q: Tensor, k: Tensor, v: Tensor, masks: TileMasks, tile: Tile, scale: float) -> tuple[Tensor, Tensor]:
    causal = masks.is_causal(tile)
    kernel = flash_forward if q.is_cpu and flash_is_exact(grouped=False) else device_kernel.forward
    out, lse = kernel(q, k, v, 0.0, causal, attn_mask=None if causal else masks.of(tile), scale=scale)
    return out, lse


def _mark_empty_rows(lse: Tensor, masks: TileMasks, tile: Tile) -> Tensor:
    if masks.is_causal(tile) or (added := masks.of(tile)) is None:
        return lse
    return lse.masked_fill(added.isneginf().all(-1), float("-inf"))


def backward(
    grad: Float[Tensor, "b h l d"],
    grad_lse: Float[Tensor, "b h l"] | None,
    q: Float[Tensor, "b h l d"],
    k: Float[Tensor, "b g s d"],
    v: Float[Tensor, "b g s d"],
    out: Float[Tensor, "b h l d"],
    lse: Float[Tensor, "b h l"],
    masks: TileMasks,
    scale: float,
) -> tuple[Float[Tensor, "b h l d"], Float[Tensor, "b g s d"], Float[Tensor, "b g s d"]]:
    """Return the gradients of q, k and v."""
    width = q.shape[-1]
    if grad_lse is not None:
        # The kernel's dS lacks the term P·dlse. One more column of values 1, with gradient dlse and output 0, adds it.
        extra = 8 - width % 8
        grad = torch.cat([grad, grad_lse[..., None].to(grad.dtype), grad.new_zeros(*grad.shape[:3], extra - 1)], -1)
        v = torch.cat([v, v.new_ones(*v.shape[:3], 1), v.new_zeros(*v.shape[:3], extra - 1)], -1)
        q, k, out = F.pad(q, (0, extra)), F.pad(k, (0, extra)), F.pad(out, (0, extra))

    kernel = flash_backward if q.is_cpu and flash_is_exact(grouped=False) else device_kernel.backward

    def shares(tile: Tile) -> Iterator[tuple[tuple[Run, ...], Tensor, Tensor, Tensor]]:
        """Yield some keys of a tile at a time, with the gradients that they add to dQ, dK and dV."""
        if not tile.runs:
            return
        rows = (tile.batch, slice(None), tile.rows)
        # Tensors that are used whole are not indexed, because torch.func may not support the indexing.
        whole = tile.batch == slice(None) and tile.rows == slice(0, q.shape[2])
        before = (grad, q) if whole else (grad[rows], q[rows])
        after = (out, lse) if whole else (out[rows], lse[rows])
        causal = masks.is_causal(tile)
        added = None if causal else masks.of(tile)
        for part, columns in split_keys(tile.runs) if q.is_cpu and not causal else [(tile.runs, slice(None))]:
            keys, values = take_runs(k[tile.batch], part, 2), take_runs(v[tile.batch], part, 2)
            bias = None if added is None else added[..., columns]
            yield part, *kernel(*before, keys, values, *after, 0.0, causal, attn_mask=bias, scale=scale)

    first = masks.plan[0]
    if len(masks.plan) == 1 and first.batch == slice(None) and first.runs == ((0, k.shape[2]),):
        dq_sum = _Sum()
        dks, dvs = [], []
        for _, dq, dk, dv in shares(first):
            dq_sum.add(dq)
            dks.append(dk)
            dvs.append(dv)
            del dq  # free its memory before the next piece: it has been added, and is as large as the sum
        gradients = dq_sum.total(), _concatenate(dks), _concatenate(dvs)
        return gradients if grad_lse is None else tuple(x[..., :width] for x in gradients)  # type: ignore[return-value]
    all_dq = torch.empty_like(q)
    all_dk, all_dv = (torch.zeros_like(x, dtype=_accumulator(q.dtype)) for x in (k, v))
    for tile in masks.plan:
        dq_sum = _Sum()
        for runs, dq, dk, dv in shares(tile):
            dq_sum.add(dq)
            del dq
            _add_runs(all_dk[tile.batch], dk, runs)
            _add_runs(all_dv[tile.batch], dv, runs)
        all_dq[tile.batch, :, tile.rows] = dq_sum.total() if tile.runs else 0
    return all_dq[..., :width], all_dk[..., :width].to(k.dtype), all_dv[..., :width].to(v.dtype)


class _Sum:
    """Running sum in float32 or wider, here of dQ over pieces of the keys; the terms are not kept."""

    def __init__(self) -> None:
        self._sum: Tensor | None = None
        self._dtype = torch.float32

    def add(self, term: Tensor) -> None:
        if self._sum is None:
            self._sum, self._dtype = term, term.dtype
        elif self._sum.dtype != (dtype := _accumulator(term.dtype)):
            self._sum = self._sum.to(dtype).add_(term)
        else:
            self._sum += term

    def total(self) -> Tensor:
        assert self._sum is not None
        return self._sum.to(self._dtype)


def _concatenate(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, 2)


def split_keys(runs: tuple[Run, ...]) -> Iterator[tuple[tuple[Run, ...], slice]]:
    """Yield pieces of at most BACKWARD_KEYS keys and of about equal size, with their columns in the tile."""
    keys = sum(stop - start for start, stop in runs)
    count = -(-keys // BACKWARD_KEYS)
    size = -(-keys // count // 8) * 8
    for low in range(0, keys, size):
        high = min(low + size, keys)
        piece, at = [], 0
        for start, stop in runs:
            left, right = max(start, start + low - at), min(stop, start + high - at)
            if left < right:
                piece.append((left, right))
            at += stop - start
        yield tuple(piece), slice(low, high)


def _add_runs(x: Float[Tensor, "b g s d"], part: Float[Tensor, "b g n d"], runs: tuple[Run, ...]) -> None:
    at = 0
    for start, stop in runs:
        x[:, :, start:stop] += part[:, :, at : at + stop - start]
        at += stop - start


def _accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which rows are normalised and sums are accumulated: float32 or wider."""
    return torch.float64 if dtype == torch.float64 else torch.float32
