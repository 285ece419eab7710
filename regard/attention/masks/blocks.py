"""Blocks of places: each block sees itself, or the blocks that a layout names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.attention.masks.bands import whole
from regard.attention.masks.mask import HIDDEN, MIXED, VISIBLE, Index, Mask, States
from regard.attention.masks.mask_data import as_array, beside, kind


@dataclass(frozen=True)
class Blocks(Mask):
    size: int

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        return q // self.size == k // self.size

    def states(self, b: int, q0: int, q1: int, k0: NDArray[np.int64], k1: NDArray[np.int64]) -> States:
        first, last = q0 // self.size, (q1 - 1) // self.size
        left, right = k0 // self.size, (k1 - 1) // self.size
        apart = (right < first) | (left > last)
        alike = (left == right) & (left == first) & (left == last)
        return np.where(apart, HIDDEN, np.where(alike, VISIBLE, MIXED)).astype(np.int8)

    def cuts(self, b: int, keys: int) -> Iterable[int]:
        return range(self.size, keys, self.size)

    def because(self, b: int, h: int, q: int, k: int) -> str:
        mine, its = q // self.size, k // self.size
        where = f"both are in block {mine}" if mine == its else f"the query is in block {mine}, the key in {its}"
        return f"{self!r} {'shows' if mine == its else 'hides'} it ({where})"

    def __repr__(self) -> str:
        return f"blocks({self.size})"


@dataclass(frozen=True, eq=False)
class Layout(Mask):
    size: int
    layout: Any  # (H or 1, rows, columns) bools

    fixed = False

    @property
    def head_count(self) -> int:  # type: ignore[override]
        return int(self.layout.shape[0])

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        return beside(self.layout, k)[self._head(h), q * (q >= 0) // self.size, k // self.size] & (q >= 0)

    def states(self, b: int, q0: int, q1: int, k0: NDArray[np.int64], k1: NDArray[np.int64]) -> States:
        if q0 < 0:
            return np.full(k0.shape, HIDDEN if q1 <= 0 else MIXED, np.int8)
        rows = self.layout[:, q0 // self.size : (q1 - 1) // self.size + 1]
        some, every = rows.any(axis=(0, 1)), rows.all(axis=(0, 1))
        left, right = k0 // self.size, (k1 - 1) // self.size + 1
        seen = np.concatenate([[0], np.cumsum(some)])
        full = np.concatenate([[0], np.cumsum(every)])
        hidden, whole_ = seen[right] == seen[left], full[right] - full[left] == right - left
        return np.where(hidden, HIDDEN, np.where(whole_, VISIBLE, MIXED)).astype(np.int8)

    def cuts(self, b: int, keys: int) -> Iterable[int]:
        return range(self.size, keys, self.size)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        reach = min(self.layout.shape[1:]) * self.size
        if keys > reach or self.head_count not in (1, heads):
            raise ValueError(
                f"blocks: a layout of {self.layout.shape[1]}×{self.layout.shape[2]} blocks of {self.size} for "
                f"{self.head_count} heads covers {reach} places, but there are {keys} keys and {heads} heads"
            )

    def because(self, b: int, h: int, q: int, k: int) -> str:
        if q < 0:
            return "blocks hides it (the query stands before the first key)"
        row, column = q // self.size, k // self.size
        seen = bool(self.layout[self._head(h), row, column])
        return f"blocks {'shows' if seen else 'hides'} it (layout row {row}, column {column} is {seen})"

    @property
    def extent(self) -> tuple[int, int] | None:
        return (self.size * min(self.layout.shape[1:]),) * 2

    def __repr__(self) -> str:
        return f"blocks({self.size}, layout=<{'×'.join(map(str, self.layout.shape))} bools>)"


def blocks(size: int, layout: Any = None) -> Mask:
    """Blocks of `size` places. Each sees itself; or, with a boolean `layout` (rows, columns) or
    (heads, rows, columns), block row i sees block column j where the layout is True.

    >>> print(blocks(2).draw(4, 4))
    ■ ■ · ·
    ■ ■ · ·
    · · ■ ■
    · · ■ ■
    >>> print(blocks(2, layout=[[1, 0], [1, 1]]).draw(4, 4))
    ■ ■ · ·
    ■ ■ · ·
    ■ ■ ■ ■
    ■ ■ ■ ■
    """
    size = whole("blocks(size)", size, 1, "it counts the places of a block")
    if layout is None:
        return Blocks(size)
    table = as_array(layout)
    if kind(table) not in ("bool", "int") or table.ndim not in (2, 3):
        raise ValueError(
            "blocks: a layout is booleans (rows, columns) or (heads, rows, columns), "
            f"got {kind(table)} of shape {table.shape}"
        )
    table = table.astype(bool)
    return Layout(size, table if table.ndim == 3 else table[None])
