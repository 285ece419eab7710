"""Padding: the keys that are real."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.attention.masks.mask import HIDDEN, MIXED, VISIBLE, Index, Mask, States
from regard.attention.masks.mask_data import as_array, beside, boundaries, is_tensor, kind, symbolic


@dataclass(frozen=True, eq=False)
class Lengths(Mask):
    lengths: Any  # (B,) ints

    fixed = False

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        return len(self.lengths)

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        return k < beside(self.lengths, k)[self._item(b)]

    def states(self, b: int, q0: int, q1: int, k0: NDArray[np.int64], k1: NDArray[np.int64]) -> States:
        length = self._length(b)
        return np.where(k0 >= length, HIDDEN, np.where(k1 <= length, VISIBLE, MIXED)).astype(np.int8)

    def cuts(self, b: int, keys: int) -> Iterable[int]:
        return (self._length(b),)

    def _length(self, b: int) -> int:
        return int(self.lengths[self._item(b)])

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        fits_batch(self, batch)
        longest = 0 if symbolic(self.lengths) else max((int(length) for length in self.lengths), default=0)
        if longest > keys:
            raise ValueError(
                f"padding: a length of {longest} is longer than the {keys} keys there are; "
                "lengths count the real keys of each batch item"
            )

    def because(self, b: int, h: int, q: int, k: int) -> str:
        length = self._length(b)
        return (
            f"padding hides it (item {b} has {length} keys)"
            if k >= length
            else (f"padding shows it (key {k} is one of the {length} of item {b})")
        )

    @property
    def extent(self) -> tuple[int, int] | None:
        longest = max(1, int(as_array(self.lengths).max(initial=1)))
        return longest, longest

    def __repr__(self) -> str:
        return f"padding(lengths={few(self.lengths)})"


@dataclass(frozen=True, eq=False)
class RealKeys(Mask):
    real: Any  # (B, S) bools

    fixed = False

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        return int(self.real.shape[0])

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        return beside(self.real, k)[self._item(b), k]

    def states(self, b: int, q0: int, q1: int, k0: NDArray[np.int64], k1: NDArray[np.int64]) -> States:
        upto = np.concatenate([[0], np.cumsum(as_array(self.real[self._item(b)]))])
        count = upto[k1] - upto[k0]
        return np.where(count == 0, HIDDEN, np.where(count == k1 - k0, VISIBLE, MIXED)).astype(np.int8)

    def cuts(self, b: int, keys: int) -> Iterable[int]:
        return boundaries(as_array(self.real[self._item(b)]))

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        fits_batch(self, batch)
        if self.real.shape[1] != keys:
            raise ValueError(f"padding: the mask is for {self.real.shape[1]} keys, but there are {keys}")

    def because(self, b: int, h: int, q: int, k: int) -> str:
        return f"padding {'shows' if self.real[self._item(b), k] else 'hides'} it (key {k} of item {b})"

    @property
    def extent(self) -> tuple[int, int] | None:
        return (int(self.real.shape[1]),) * 2

    def __repr__(self) -> str:
        return f"padding(<{self.real.shape[0]}×{self.real.shape[1]} bools>)"


def padding(real: Any) -> Mask:
    """The real keys of each batch item, as lengths (B,) or as booleans (B, S), **True = real**.

    Keys are hidden, queries are not: a padded query still sees the real keys, and its output is yours to drop.

    >>> print(padding([1, 3]).draw(2, 3, batch=0))
    ■ · ·
    ■ · ·
    >>> import torch
    >>> padding(torch.tensor([[True, True, False]])).explain(0, 2)
    'query 0 cannot see key 2: padding hides it (key 2 of item 0)'
    """
    data = real if is_tensor(real) else np.asarray(real)
    if data.ndim == 1 and kind(data) == "int":
        if not symbolic(data) and (as_array(data) < 0).any():
            raise ValueError(f"padding: lengths must not be negative, got {as_array(data).min()}")
        return Lengths(data)
    if data.ndim == 2 and kind(data) == "bool":
        return RealKeys(data)
    raise (ValueError if kind(data) in ("int", "bool") else TypeError)(
        "padding takes lengths (B,) of whole numbers, or booleans (B, S) with True for real keys; "
        f"got {kind(data)} of shape {tuple(data.shape)}"
    )


def fits_batch(mask: Mask, batch: int) -> None:
    if mask.batch_size not in (1, batch):
        raise ValueError(f"{mask!r} is for a batch of {mask.batch_size}, but the batch has {batch}")


def few(values: Any) -> str:
    row = [int(value) for value in values[:4]]
    return f"[{', '.join(map(str, row))}{', …' if len(values) > 4 else ''}]"
