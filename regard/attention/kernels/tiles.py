"""Attention tile by tile, forward and backward, on torch's fused CPU kernel.

Forward, a tile is the block of queries `rows` with the keys that any of them sees:

    o, lse = kernel(q[rows], k[runs], v[runs], mask inside the tile)

Every visible key of a query lies in its one tile, so its softmax is complete and nothing has to be merged.

Backward, with the whole row's output o and log-sum-exp, any piece of the keys gives its exact share:

    P = exp(scale·q·kᵀ + mask − lse)       dV += Pᵀ dO       dP = dO Vᵀ
    dS = P ∘ (dP − rowsum(dO ∘ O) + dlse)  dQ += scale · dS K       dK += scale · dSᵀ Q

which is why keys can be taken a few hundred at a time, where the kernel is fastest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from regard.attention.kernels.block_plan import Plan, Run, Tile
from regard.attention.kernels.huge_pages import large
from regard.attention.kernels.torch_operators import flash_backward, flash_forward
from regard.attention.masks.mask import Mask

BACKWARD_KEYS = 368  # backward, six pieces of 344 keys take 0.94 of the time of 2,048 at once (bench/kernel.py)


@runtime_checkable
class BiasRule(Protocol):
    """A bias that is computed where it is needed, such as ALiBi: a function of head and distance."""

    heads: int

    def values(self, h: Tensor, distance: Tensor) -> Tensor: ...


Bias = Float[Tensor, "#b #h #l #s"]


@dataclass
class Additive:
    """What is added to the scores of a tile: −inf where hidden, and the bias."""

    plan: Plan
    bias: Bias | None
    rule: BiasRule | None
    heads: int
    like: Tensor
    _strips: dict[Any, tuple[Tensor, int]] = field(default_factory=dict)

    def of(self, tile: Tile) -> Float[Tensor, "#b #h rows keys"] | None:
        parts = [part for part in (self._hidden(tile), self._given(tile), self._computed(tile)) if part is not None]
        if not parts:
            return None
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total.expand(-1, -1, tile.rows.stop - tile.rows.start, tile.keys)

    def by_kernel(self, tile: Tile) -> bool:
        """Whether the kernel's own causal rule says all there is to say."""
        return tile.triangle and self.bias is None and self.rule is None

    def _hidden(self, tile: Tile) -> Tensor | None:
        if tile.rule is None:
            return None
        if tile.strip:
            return self._slice(tile, tile.rule)
        device = self.like.device
        k = _take_runs(torch.arange(tile.runs[-1][1], device=device), tile.runs, 0)
        q = torch.arange(tile.place, tile.place + tile.rows.stop - tile.rows.start, device=device)
        h = torch.arange(tile.rule.head_count, device=device)[None, :, None, None]
        b = torch.arange(tile.item, tile.item + 1, device=device)[:, None, None, None]
        if tile.batch == slice(None):
            b = torch.arange(tile.rule.batch_size, device=device)[:, None, None, None]
        seen = tile.rule.visible(b, h, q[None, None, :, None], k[None, None, None, :])
        return self._minus_infinity(seen)

    def _given(self, tile: Tile) -> Tensor | None:
        if self.bias is None:
            return None
        part = self.bias[tile.batch] if self.bias.shape[0] > 1 else self.bias
        part = part[:, :, tile.rows] if part.shape[2] > 1 else part
        return _take_runs(part, tile.runs, 3) if part.shape[3] > 1 else part

    def _computed(self, tile: Tile) -> Tensor | None:
        return None if self.rule is None else self._slice(tile, self.rule)

    def _slice(self, tile: Tile, rule: Mask | BiasRule) -> Tensor:
        """The tile's part of a strip: row r, column c of it hold the distance base + r − c."""
        if rule not in self._strips:
            mine = [t for t in self.plan if t.runs and (t.rule == rule or rule is self.rule)]
            height, width, base = strip_size(mine)
            device = self.like.device
            r = torch.arange(height, device=device)[:, None] + base
            c = torch.arange(width, device=device)[None, :]
            if isinstance(rule, Mask):
                strip = self._minus_infinity(rule.visible(0, 0, r, c)[None, None])
            else:
                h = torch.arange(self.heads, device=device)[:, None, None]
                strip = rule.values(h, r - c)[None].to(self.like.dtype)
            self._strips[rule] = strip, base
        strip, base = self._strips[rule]
        rows = tile.rows.stop - tile.rows.start
        pieces = [strip[..., :rows, base - tile.place + start : base - tile.place + stop] for start, stop in tile.runs]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, -1)

    def _minus_infinity(self, seen: Tensor) -> Tensor:
        return torch.zeros(seen.shape, dtype=self.like.dtype, device=seen.device).masked_fill_(~seen, float("-inf"))


def strip_size(tiles: Sequence[Tile]) -> tuple[int, int, int]:
    """Return height, width and base of a strip that contains the mask of every tile; `base` is its first distance."""
    base = max(tile.place - tile.runs[0][0] for tile in tiles)
    width = max(base - tile.place + tile.runs[-1][1] for tile in tiles)
    return max(tile.rows.stop - tile.rows.start for tile in tiles), width, base


def forward(
    q: Float[Tensor, "b h l d"],
    k: Float[Tensor, "b g s d"],
    v: Float[Tensor, "b g s d"],
    additive: Additive,
    scale: float,
    mark_empty: bool,
) -> tuple[Float[Tensor, "b h l d"], Float[Tensor, "b h l"], Float[Tensor, "b h l"]]:
    """Output; log-sum-exp as the kernel's backward wants it (0 for an empty row); and as it is (−inf)."""
    tiles = additive.plan
    if len(tiles) == 1 and tiles[0].batch == slice(None) and tiles[0].keys == k.shape[2]:
        out, lse = _call(q, k, v, additive, tiles[0], scale)
        true = _with_empty(lse, additive, tiles[0]) if mark_empty else lse
        return out, lse, true
    out, lse = large(torch.empty_like(q)), q.new_empty(q.shape[:3], dtype=_wide(q.dtype))
    true = torch.empty_like(lse) if mark_empty else lse
    for tile in tiles:
        if not tile.runs:
            out[tile.batch, :, tile.rows], lse[tile.batch, :, tile.rows] = 0, 0
            if mark_empty:
                true[tile.batch, :, tile.rows] = float("-inf")
            continue
        here = (
            q[tile.batch, :, tile.rows],
            _take_runs(k[tile.batch], tile.runs, 2),
            _take_runs(v[tile.batch], tile.runs, 2),
        )
        o, row_lse = _call(*here, additive, tile, scale)
        out[tile.batch, :, tile.rows], lse[tile.batch, :, tile.rows] = o, row_lse
        if mark_empty:
            true[tile.batch, :, tile.rows] = _with_empty(row_lse, additive, tile)
    return out, lse, true


def _call(q: Tensor, k: Tensor, v: Tensor, additive: Additive, tile: Tile, scale: float) -> tuple[Tensor, Tensor]:
    if additive.by_kernel(tile):
        out, lse = flash_forward(q, k, v, 0.0, True, scale=scale)
    else:
        out, lse = flash_forward(q, k, v, 0.0, False, attn_mask=additive.of(tile), scale=scale)
    return out, lse


def _with_empty(lse: Tensor, additive: Additive, tile: Tile) -> Tensor:
    if additive.by_kernel(tile) or (added := additive.of(tile)) is None:
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
    additive: Additive,
    scale: float,
) -> tuple[Float[Tensor, "b h l d"], Float[Tensor, "b g s d"], Float[Tensor, "b g s d"]]:
    """Gradients of q, k and v."""
    width = q.shape[-1]
    if grad_lse is not None:
        # dS lacks only the term P·dlse: a value of 1 in one more column, with gradient dlse and output 0, adds it.
        extra = 8 - width % 8
        grad = torch.cat([grad, grad_lse[..., None].to(grad.dtype), grad.new_zeros(*grad.shape[:3], extra - 1)], -1)
        v = torch.cat([v, v.new_ones(*v.shape[:3], 1), v.new_zeros(*v.shape[:3], extra - 1)], -1)
        q, k, out = F.pad(q, (0, extra)), F.pad(k, (0, extra)), F.pad(out, (0, extra))

    def shares(tile: Tile, runs: tuple[Run, ...]) -> Iterator[tuple[tuple[Run, ...], Tensor, Tensor, Tensor]]:
        """The shares of dQ, dK and dV that a tile's keys bring, some keys at a time."""
        if not runs:
            return
        rows = (tile.batch, slice(None), tile.rows)
        # What covers everything is taken as it is: an index would be one more thing for torch's transforms to know.
        everything = tile.batch == slice(None) and tile.rows == slice(0, q.shape[2])
        here = (grad, q) if everything else (grad[rows], q[rows])
        there = (out, lse) if everything else (out[rows], lse[rows])
        causal = additive.by_kernel(tile)
        added = None if causal else additive.of(tile)
        for part, columns in [(runs, slice(None))] if causal else split_keys(runs):
            keys, values = _take_runs(k[tile.batch], part, 2), _take_runs(v[tile.batch], part, 2)
            bias = None if added is None else added[..., columns]
            yield part, *flash_backward(*here, keys, values, *there, 0.0, causal, attn_mask=bias, scale=scale)

    first = additive.plan[0]
    if len(additive.plan) == 1 and first.batch == slice(None) and first.runs == ((0, k.shape[2]),):
        whole = _Sum()
        dks, dvs = [], []
        for _, a, b, c in shares(first, first.runs):
            whole.add(a)
            dks.append(b)
            dvs.append(c)
            del a  # it is in the sum, and as large as it
        found = whole.total(), _joined(dks), _joined(dvs)
        return found if grad_lse is None else tuple(x[..., :width] for x in found)  # type: ignore[return-value]
    dq = torch.empty_like(q)
    dk, dv = (torch.zeros_like(x, dtype=_wide(q.dtype)) for x in (k, v))
    for tile in additive.plan:
        part = _Sum()
        for runs, a, b, c in shares(tile, tile.runs):
            part.add(a)
            del a
            _add_runs(dk[tile.batch], b, runs)
            _add_runs(dv[tile.batch], c, runs)
        dq[tile.batch, :, tile.rows] = part.total() if tile.runs else 0
    return dq[..., :width], dk[..., :width].to(k.dtype), dv[..., :width].to(v.dtype)


class _Sum:
    """A sum taken as its terms come, so that one of them at a time is held: dQ has as many as there are pieces."""

    def __init__(self) -> None:
        self._sum: Tensor | None = None
        self._dtype = torch.float32

    def add(self, term: Tensor) -> None:
        if self._sum is None:
            self._sum, self._dtype = term, term.dtype
        elif self._sum.dtype != (wide := _wide(term.dtype)):
            self._sum = self._sum.to(wide).add_(term)
        else:
            self._sum += term

    def total(self) -> Tensor:
        assert self._sum is not None
        return self._sum.to(self._dtype)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), 2)


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


def _take_runs(x: Shaped[Tensor, "..."], runs: tuple[Run, ...], dim: int) -> Shaped[Tensor, "..."]:
    if len(runs) == 1:
        start, stop = runs[0]
        return x if stop - start == x.shape[dim] else x.narrow(dim, start, stop - start)
    return torch.cat([x.narrow(dim, start, stop - start) for start, stop in runs], dim)


def _add_runs(x: Float[Tensor, "b g s d"], part: Float[Tensor, "b g n d"], runs: tuple[Run, ...]) -> None:
    at = 0
    for start, stop in runs:
        x[:, :, start:stop] += part[:, :, at : at + stop - start]
        at += stop - start


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The precision in which rows are normalised."""
    return torch.float64 if dtype == torch.float64 else torch.float32
