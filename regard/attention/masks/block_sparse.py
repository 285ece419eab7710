"""Block masks: each block of positions sees itself, or the blocks that a layout names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.attention.integer_arguments import check_integer
from regard.attention.masks.export import Index
from regard.attention.masks.mask import HIDDEN, MIXED, Mask, Positions, States, block_states
from regard.attention.masks.mask_data import as_kind_of, as_numpy, dtype_kind


@dataclass(frozen=True)
class Blocks(Mask):
    size: int

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        return q // self.size == k // self.size

    def states(self, b: int, q0: int, q1: int, k0: Positions, k1: Positions) -> States:
        first, last = q0 // self.size, (q1 - 1) // self.size
        left, right = k0 // self.size, (k1 - 1) // self.size
        disjoint = (right < first) | (left > last)
        same = (left == right) & (left == first) & (left == last)
        return block_states(disjoint, same)

    def boundaries(self, b: int, keys: int) -> Iterable[int]:
        return range(self.size, keys, self.size)

    def _reason(self, b: int, h: int, q: int, k: int) -> str:
        row, column = q // self.size, k // self.size
        return f"both are in block {row}" if row == column else f"the query is in block {row}, the key in {column}"

    def __repr__(self) -> str:
        return f"blocks({self.size})"


@dataclass(frozen=True, eq=False)
class BlockLayout(Mask):
    size: int
    layout: Any  # (H or 1, rows, columns) bools

    parseable, label = False, "blocks"

    @property
    def head_count(self) -> int:  # type: ignore[override]
        return int(self.layout.shape[0])

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        # A query before the first key (L > S) has a negative position and sees nothing.
        layout = as_kind_of(k, self.layout)
        return layout[self._head_index(h), q * (q >= 0) // self.size, k // self.size] & (q >= 0)

    def states(self, b: int, q0: int, q1: int, k0: Positions, k1: Positions) -> States:
        if q0 < 0:
            return np.full(k0.shape, HIDDEN if q1 <= 0 else MIXED, np.int8)
        rows = self.layout[:, q0 // self.size : (q1 - 1) // self.size + 1]
        left, right = k0 // self.size, (k1 - 1) // self.size + 1
        some = np.concatenate([[0], np.cumsum(rows.any(axis=(0, 1)))])
        all_ = np.concatenate([[0], np.cumsum(rows.all(axis=(0, 1)))])
        return block_states(some[right] == some[left], all_[right] - all_[left] == right - left)

    def boundaries(self, b: int, keys: int) -> Iterable[int]:
        return range(self.size, keys, self.size)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        covered = min(self.layout.shape[1:]) * self.size
        if keys > covered or self.head_count not in (1, heads):
            raise ValueError(
                f"blocks: a layout of {self.layout.shape[1]}×{self.layout.shape[2]} blocks of {self.size} for "
                f"{self.head_count} heads covers {covered} positions; the input has {keys} keys and {heads} heads"
            )

    def _reason(self, b: int, h: int, q: int, k: int) -> str:
        if q < 0:
            return "the query is before the first key"
        return f"layout row {q // self.size}, column {k // self.size} is {self.shows(b, h, q, k)}"

    @property
    def extent(self) -> tuple[int, int] | None:
        return (self.size * min(self.layout.shape[1:]),) * 2

    def __repr__(self) -> str:
        return f"blocks({self.size}, layout=<{'×'.join(map(str, self.layout.shape))} bools>)"


def blocks(size: int, layout: Any = None) -> Mask:
    """Return a mask of blocks of `size` positions, each of which sees itself.

    With a boolean `layout` (rows, columns) or (heads, rows, columns), block i sees block j where the layout is True.

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
    size = check_integer("blocks(size)", size, 1, "it counts the positions of a block")
    if layout is None:
        return Blocks(size)
    table = as_numpy(layout)
    if dtype_kind(table) not in ("bool", "int") or table.ndim not in (2, 3):
        raise ValueError(
            "blocks: a layout is booleans (rows, columns) or (heads, rows, columns), "
            f"got {dtype_kind(table)} of shape {table.shape}"
        )
    table = table.astype(bool)
    return BlockLayout(size, table if table.ndim == 3 else table[None])
