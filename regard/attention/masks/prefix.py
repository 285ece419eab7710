"""A prefix that everyone sees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.attention.masks.bands import whole
from regard.attention.masks.mask import HIDDEN, MIXED, VISIBLE, Index, Mask, States


@dataclass(frozen=True)
class Prefix(Mask):
    keys: int

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        return (k < self.keys) & (q == q)  # the second part only gives the answer the shape of both

    def states(self, b: int, q0: int, q1: int, k0: NDArray[np.int64], k1: NDArray[np.int64]) -> States:
        return np.where(k0 >= self.keys, HIDDEN, np.where(k1 <= self.keys, VISIBLE, MIXED)).astype(np.int8)

    def cuts(self, b: int, keys: int) -> Iterable[int]:
        return (self.keys,)

    def because(self, b: int, h: int, q: int, k: int) -> str:
        return f"{self!r} {'shows' if k < self.keys else 'hides'} it (it shows the first {self.keys} keys)"

    def __repr__(self) -> str:
        return f"prefix({self.keys})"


def prefix(keys: int) -> Mask:
    """Every query sees the first `keys` keys. With causal: `causal() | prefix(n)` is a prefix language model;
    `window(keys=W) | prefix(4)` is a window that keeps the first keys in sight (attention sinks).

    >>> from regard.masks import causal
    >>> print((causal() | prefix(2)).draw(3, 3))
    ■ ■ ·
    ■ ■ ·
    ■ ■ ■
    """
    return Prefix(whole("prefix(…)", keys, 0, "it counts keys from the first"))
