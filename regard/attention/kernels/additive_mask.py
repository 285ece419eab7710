"""The tensor that is added to the scores: −inf for hidden pairs, plus the bias; for all pairs or for one tile."""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from regard.attention.kernels.block_plan import Plan, Run, Tile, strip_size
from regard.attention.masks.mask import Mask


@runtime_checkable
class BiasRule(Protocol):
    """A bias such as ALiBi that is a function of head and distance, computed for one tile at a time."""

    heads: int

    def values(self, h: Tensor, distance: Tensor) -> Tensor: ...


def mask_tensor(mask: Mask, q: Tensor, k: Tensor) -> Bool[Tensor, "..."]:
    """Return the mask as a boolean tensor that broadcasts to (..., H, L, S)."""
    visible = mask.tensor(1 if mask.by_key else q.shape[-2], k.shape[-2], device=q.device)
    if visible.dim() == 2 or q.dim() == 4:
        return visible
    if q.dim() < 4:
        return visible[0] if q.dim() == 3 else visible[0, 0]
    return visible[0] if visible.shape[0] == 1 else visible.reshape(*q.shape[:-3], *visible.shape[1:])


def hide(table: Tensor | None, visible: Bool[Tensor, "..."], like: Tensor) -> Tensor:
    """Return `table`, or zeros if it is None, with −inf where a pair is not visible."""
    zero = torch.zeros((), dtype=like.dtype, device=like.device)
    return torch.where(visible, zero if table is None else table, float("-inf"))


def additive_mask(
    q: Tensor, k: Tensor, mask: Mask | None, table: Tensor | None, bias: BiasRule | None
) -> Tensor | None:
    """Return mask (as 0 and −inf) + table + bias, broadcastable to (..., H, L, S); None if all three are None."""
    if bias is not None:
        queries, keys = q.shape[-2], k.shape[-2]
        heads = torch.arange(q.shape[-3] if q.dim() > 2 else 1, device=q.device)[:, None, None]
        positions = torch.arange(keys - queries, keys, device=q.device)[:, None]
        values = bias.values(heads, positions - torch.arange(keys, device=q.device)).to(q.dtype)
        table = values if table is None else table + values
    return table if mask is None else hide(table, mask_tensor(mask, q, k), q)


def take_runs(x: Shaped[Tensor, "..."], runs: tuple[Run, ...], dim: int) -> Shaped[Tensor, "..."]:
    """Return the entries of x from start to stop − 1 along `dim`, for each run (start, stop); one run gives a view."""
    if len(runs) == 1:
        start, stop = runs[0]
        return x if stop - start == x.shape[dim] else x.narrow(dim, start, stop - start)
    return torch.cat([x.narrow(dim, start, stop - start) for start, stop in runs], dim)


@dataclass
class TileMasks:
    """Computes the tensor that is added to the scores of a tile: mask, table and bias."""

    plan: Plan
    table: Float[Tensor, "#b #h #l #s"] | None
    bias: BiasRule | None
    heads: int
    like: Tensor
    _strips: dict[Any, tuple[Tensor, int]] = field(default_factory=dict)

    def of(self, tile: Tile) -> Float[Tensor, "#b #h rows keys"] | None:
        """Return mask (as 0 and −inf) + table + bias for the tile's scores; None if the tile has none of them."""
        total: Tensor | None = None
        bias = None if self.bias is None else self._strip_part(tile, self.bias)
        for part in (self._hidden(tile), self._table_part(tile), bias):
            if part is not None:
                total = part if total is None else total + part
        return None if total is None else total.expand(-1, -1, tile.rows.stop - tile.rows.start, tile.keys)

    def is_causal(self, tile: Tile) -> bool:
        """Return whether the kernel's own causal flag replaces the mask of the tile."""
        return tile.is_triangle and self.table is None and self.bias is None

    def _hidden(self, tile: Tile) -> Tensor | None:
        if tile.rule is None:
            return None
        if tile.is_strip:
            return self._strip_part(tile, tile.rule)
        device = self.like.device
        k = take_runs(torch.arange(tile.runs[-1][1], device=device), tile.runs, 0)
        q = torch.arange(tile.position, tile.position + tile.rows.stop - tile.rows.start, device=device)
        h = torch.arange(tile.rule.head_count, device=device)[None, :, None, None]
        b = torch.arange(tile.item, tile.item + 1, device=device)[:, None, None, None]
        if tile.batch == slice(None):
            b = torch.arange(tile.rule.batch_size, device=device)[:, None, None, None]
        return self._minus_infinity(tile.rule.visible(b, h, q[None, None, :, None], k[None, None, None, :]))

    def _table_part(self, tile: Tile) -> Tensor | None:
        if self.table is None:
            return None
        part = self.table[tile.batch] if self.table.shape[0] > 1 else self.table
        part = part[:, :, tile.rows] if part.shape[2] > 1 else part
        return take_runs(part, tile.runs, 3) if part.shape[3] > 1 else part

    def _strip_part(self, tile: Tile, rule: Mask | BiasRule) -> Tensor:
        """Return the values of `rule` for a tile: a slice of a strip, a tensor that all tiles with this rule share.

        The entry at row r and column c of the strip is the value of the rule at distance base + r − c.
        """
        if rule not in self._strips:
            tiles = [t for t in self.plan if t.runs and (t.rule == rule or rule is self.bias)]
            height, width, base = strip_size(tiles)
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
        rows, offset = tile.rows.stop - tile.rows.start, base - tile.position
        pieces = [strip[..., :rows, offset + start : offset + stop] for start, stop in tile.runs]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, -1)

    def _minus_infinity(self, visible: Tensor) -> Tensor:
        zeros = torch.zeros(visible.shape, dtype=self.like.dtype, device=visible.device)
        return zeros.masked_fill_(~visible, float("-inf"))
