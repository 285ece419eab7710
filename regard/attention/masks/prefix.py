"""Prefix mask: the first keys are visible to every query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from regard.attention.integer_arguments import check_integer
from regard.attention.masks.export import Index
from regard.attention.masks.mask import Mask, Positions, States, block_states


@dataclass(frozen=True)
class Prefix(Mask):
    keys: int

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        return (k < self.keys) & (q == q)  # (q == q) broadcasts the result to the shape of q and k

    def states(self, b: int, q0: int, q1: int, k0: Positions, k1: Positions) -> States:
        return block_states(k0 >= self.keys, k1 <= self.keys)

    def boundaries(self, b: int, keys: int) -> Iterable[int]:
        return (self.keys,)

    def _reason(self, b: int, h: int, q: int, k: int) -> str:
        return f"it shows the first {self.keys} keys"

    def __repr__(self) -> str:
        return f"prefix({self.keys})"


def prefix(keys: int) -> Mask:
    """Return a mask with which every query sees the first `keys` keys.

    `causal() | prefix(n)` is the mask of a prefix language model. `window(keys=W) | prefix(4)` is a window with the
    first four keys as attention sinks.

    >>> from regard.masks import causal
    >>> print((causal() | prefix(2)).draw(3, 3))
    ■ ■ ·
    ■ ■ ·
    ■ ■ ■
    """
    return Prefix(check_integer("prefix(…)", keys, 0, "it counts keys from the first"))
