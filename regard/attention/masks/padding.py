"""Padding masks: hide the keys that pad a batch item to the length of the longest one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.attention.masks.export import Index
from regard.attention.masks.mask import Mask, Positions, States, block_states
from regard.attention.masks.mask_data import as_kind_of, as_numpy, changes, dtype_kind, integers, is_symbolic


@dataclass(frozen=True, eq=False)
class Lengths(Mask):
    lengths: Any  # (B,) ints
    longest: int | None = None  # largest length; None where it cannot be read

    by_key, parseable, label = True, False, "padding"

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        return len(self.lengths)

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        return k < as_kind_of(k, self.lengths)[self._batch_index(b)]

    def states(self, b: int, q0: int, q1: int, k0: Positions, k1: Positions) -> States:
        length = self._length(b)
        return block_states(k0 >= length, k1 <= length)

    def boundaries(self, b: int, keys: int) -> Iterable[int]:
        return (self._length(b),)

    def _length(self, b: int) -> int:
        return int(self.lengths[self._batch_index(b)])

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        self._check_batch(batch)
        if self.longest is not None and self.longest > keys:
            raise ValueError(
                f"padding: a length of {self.longest} is longer than the {keys} keys there are; "
                "lengths count the real keys of each batch item"
            )

    def _reason(self, b: int, h: int, q: int, k: int) -> str:
        length = self._length(b)
        return f"item {b} has {length} keys" if k >= length else f"key {k} is one of the {length} of item {b}"

    @property
    def extent(self) -> tuple[int, int] | None:
        return (max(1, int(as_numpy(self.lengths).max(initial=1))),) * 2

    def __repr__(self) -> str:
        return f"padding(lengths={shorten(self.lengths)})"


@dataclass(frozen=True, eq=False)
class RealKeys(Mask):
    real: Any  # (B, S) bools

    by_key, parseable, label = True, False, "padding"

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        return int(self.real.shape[0])

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        return as_kind_of(k, self.real)[self._batch_index(b), k]

    def states(self, b: int, q0: int, q1: int, k0: Positions, k1: Positions) -> States:
        cumulative = np.concatenate([[0], np.cumsum(as_numpy(self.real[self._batch_index(b)]))])
        count = cumulative[k1] - cumulative[k0]
        return block_states(count == 0, count == k1 - k0)

    def boundaries(self, b: int, keys: int) -> Iterable[int]:
        return changes(as_numpy(self.real[self._batch_index(b)]))

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        self._check_batch(batch)
        if self.real.shape[1] != keys:
            raise ValueError(f"padding: the booleans must be (B, {keys}), one per key, got (B, {self.real.shape[1]})")

    def _reason(self, b: int, h: int, q: int, k: int) -> str:
        return f"key {k} of item {b}"

    @property
    def extent(self) -> tuple[int, int] | None:
        return (int(self.real.shape[1]),) * 2

    def __repr__(self) -> str:
        return f"padding(<{self.real.shape[0]}×{self.real.shape[1]} bools>)"


def padding(real: Any) -> Mask:
    """Return a mask that shows the real keys of each batch item: lengths (B,) or booleans (B, S), **True = real**.

    Only keys are hidden. A padded query still sees the real keys; ignore its output.

    >>> print(padding([1, 3]).draw(2, 3, batch=0))
    ■ · ·
    ■ · ·
    >>> import torch
    >>> padding(torch.tensor([[True, True, False]])).explain(0, 2)
    'query 0 cannot see key 2: padding hides it (key 2 of item 0)'
    """
    data = integers(real)
    if data.ndim == 1 and dtype_kind(data) == "int":
        if is_symbolic(data):
            return Lengths(data)
        lengths = as_numpy(data)  # read once, here: every later read would make the host wait for the device
        if (lengths < 0).any():
            raise ValueError(f"padding: lengths must not be negative, got {lengths.min()}")
        return Lengths(data, int(lengths.max(initial=0)))
    if data.ndim == 2 and dtype_kind(data) == "bool":
        return RealKeys(data)
    raise (ValueError if dtype_kind(data) in ("int", "bool") else TypeError)(
        "padding takes lengths (B,) of whole numbers, or booleans (B, S) with True for real keys; "
        f"got {dtype_kind(data)} of shape {tuple(data.shape)}"
    )


def shorten(values: Any) -> str:
    """Return the first four of a row of integers as text.

    >>> shorten([1, 2, 3, 4, 5])
    '[1, 2, 3, 4, …]'
    """
    row = [int(value) for value in values[:4]]
    return f"[{', '.join(map(str, row))}{', …' if len(values) > 4 else ''}]"
