"""Documents packed into one sequence: a place sees its own document only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.attention.masks.mask import HIDDEN, MIXED, VISIBLE, Index, Mask, States
from regard.attention.masks.mask_data import as_array, beside, boundaries, is_tensor, kind
from regard.attention.masks.padding import few, fits_batch


@dataclass(frozen=True, eq=False)
class Documents(Mask):
    ids: Any  # (B, S) ints

    fixed = False

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        return int(self.ids.shape[0])

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        ids = beside(self.ids, k)
        # A query may stand before the first key (L > S): it belongs to no document.
        b = self._item(b)
        return (ids[b, q * (q >= 0)] == ids[b, k]) & (q >= 0)

    def states(self, b: int, q0: int, q1: int, k0: NDArray[np.int64], k1: NDArray[np.int64]) -> States:
        if q0 < 0:
            return np.full(k0.shape, HIDDEN if q1 <= 0 else MIXED, np.int8)
        ids = as_array(self.ids[self._item(b)])
        mine = ids[q0:q1]
        starts = np.ravel(np.column_stack([k0, np.minimum(k1, len(ids) - 1)]))
        least, most = np.minimum.reduceat(ids, starts)[::2], np.maximum.reduceat(ids, starts)[::2]
        apart = (most < mine.min()) | (least > mine.max())
        alike = (least == most) & (least == mine.min()) & (least == mine.max())
        return np.where(apart, HIDDEN, np.where(alike, VISIBLE, MIXED)).astype(np.int8)

    def cuts(self, b: int, keys: int) -> Iterable[int]:
        return boundaries(as_array(self.ids[self._item(b)]))

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        fits_batch(self, batch)
        if self.ids.shape[1] != keys:
            raise ValueError(f"documents: there are {self.ids.shape[1]} ids for {keys} keys; give one id a key")

    def because(self, b: int, h: int, q: int, k: int) -> str:
        if q < 0:
            return "documents hides it (the query stands before the first key)"
        mine, its = (int(self.ids[self._item(b), place]) for place in (q, k))
        if mine == its:
            return f"documents shows it (both are in document {mine})"
        return f"documents hides it (the query is in document {mine}, the key in {its})"

    @property
    def extent(self) -> tuple[int, int] | None:
        return (int(self.ids.shape[1]),) * 2

    def __repr__(self) -> str:
        return f"documents({few(self.ids[0])}" + (f" × {self.batch_size})" if self.batch_size > 1 else ")")


def documents(ids: Any) -> Mask:
    """Places with the same id see each other: ids (S,) or (B, S), in any order.

    >>> from regard.masks import causal
    >>> print((documents([0, 0, 1, 1]) & causal()).draw(4, 4))
    ■ · · ·
    ■ ■ · ·
    · · ■ ·
    · · ■ ■
    """
    data = ids if is_tensor(ids) else np.asarray(ids)
    if kind(data) != "int":
        raise TypeError(f"documents takes whole numbers, one id a place; got {kind(data)}")
    if data.ndim not in (1, 2):
        raise ValueError(f"documents takes ids (S,) or (B, S); got shape {tuple(data.shape)}")
    return Documents(data if data.ndim == 2 else data[None])
