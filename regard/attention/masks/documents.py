"""Document mask for sequences that pack several documents: a position sees its own document only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.attention.masks.export import Index
from regard.attention.masks.mask import HIDDEN, MIXED, Mask, Positions, States, block_states
from regard.attention.masks.mask_data import as_kind_of, as_numpy, changes, dtype_kind, integers
from regard.attention.masks.padding import shorten


@dataclass(frozen=True, eq=False)
class Documents(Mask):
    ids: Any  # (B, S) ints

    parseable, label = False, "documents"

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        return int(self.ids.shape[0])

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        # A query before the first key (L > S) has a negative position and belongs to no document.
        ids, b = as_kind_of(k, self.ids), self._batch_index(b)
        if ids.shape[1] == 0:
            return (q >= 0) & (k >= 0)  # there is no key, and no id that could be read
        return (ids[b, q * (q >= 0)] == ids[b, k]) & (q >= 0)

    def states(self, b: int, q0: int, q1: int, k0: Positions, k1: Positions) -> States:
        if q0 < 0:
            return np.full(k0.shape, HIDDEN if q1 <= 0 else MIXED, np.int8)
        ids = as_numpy(self.ids[self._batch_index(b)])
        first, last = ids[q0:q1].min(), ids[q0:q1].max()
        starts = np.ravel(np.column_stack([k0, np.minimum(k1, len(ids) - 1)]))
        low, high = np.minimum.reduceat(ids, starts)[::2], np.maximum.reduceat(ids, starts)[::2]
        return block_states((high < first) | (low > last), (low == high) & (low == first) & (low == last))

    def boundaries(self, b: int, keys: int) -> Iterable[int]:
        return changes(as_numpy(self.ids[self._batch_index(b)]))

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        self._check_batch(batch)
        if self.ids.shape[1] != keys:
            raise ValueError(f"documents: there are {self.ids.shape[1]} ids for {keys} keys; pass one id per key")

    def _reason(self, b: int, h: int, q: int, k: int) -> str:
        if q < 0:
            return "the query is before the first key"
        query_id, key_id = (int(self.ids[self._batch_index(b), position]) for position in (q, k))
        if query_id == key_id:
            return f"both are in document {query_id}"
        return f"the query is in document {query_id}, the key in {key_id}"

    @property
    def extent(self) -> tuple[int, int] | None:
        return (int(self.ids.shape[1]),) * 2

    def __repr__(self) -> str:
        return f"documents({shorten(self.ids[0] if self.batch_size else [])}" + (
            f" × {self.batch_size})" if self.batch_size > 1 else ")"
        )


def documents(ids: Any) -> Mask:
    """Return a mask with which positions that have the same id see each other; ids (S,) or (B, S), in any order.

    >>> from regard.masks import causal
    >>> print((documents([0, 0, 1, 1]) & causal()).draw(4, 4))
    ■ · · ·
    ■ ■ · ·
    · · ■ ·
    · · ■ ■
    """
    data = integers(ids)
    if dtype_kind(data) != "int":
        raise TypeError(f"documents takes whole numbers, one id per position; got {dtype_kind(data)}")
    if data.ndim not in (1, 2):
        raise ValueError(f"documents takes ids (S,) or (B, S); got shape {tuple(data.shape)}")
    return Documents(data if data.ndim == 2 else data[None])
