"""A mask with shifted positions: applies the mask of a long sequence to a piece of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from regard.attention.masks.export import Index
from regard.attention.masks.mask import DerivedMask, Mask, Positions, States


def shift_mask(mask: Mask, *, queries: int, keys: int) -> Mask:
    """Return a mask whose pair (q, k) is the pair (q + queries, k + keys) of `mask`.

    >>> from regard.masks import causal
    >>> print(shift_mask(causal(), queries=2, keys=0).draw(2, 4))
    ■ ■ ■ ■
    ■ ■ ■ ■
    """
    unchanged = (mask.relative and queries == keys) or (queries == 0 and keys == 0)
    return mask if unchanged else ShiftedMask(mask, queries, keys)


@dataclass(frozen=True)
class ShiftedMask(DerivedMask):
    """The mask with `queries` and `keys` added to the positions; made by `shift_mask`."""

    queries: int
    keys: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parseable", False)

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        return self.mask.visible(b, h, q + self.queries, k + self.keys)

    def states(self, b: int, q0: int, q1: int, k0: Positions, k1: Positions) -> States:
        return self.mask.states(b, q0 + self.queries, q1 + self.queries, k0 + self.keys, k1 + self.keys)

    def boundaries(self, b: int, keys: int) -> Iterable[int]:
        return (position - self.keys for position in self.mask.boundaries(b, keys + self.keys))

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Do nothing: these are the sizes of a piece, and the caller has checked the sizes of the whole sequence."""

    def restrict(self, b: int, q0: int, q1: int, k0: int, k1: int) -> Mask | bool:
        restricted = self.mask.restrict(b, q0 + self.queries, q1 + self.queries, k0 + self.keys, k1 + self.keys)
        return replace(self, mask=restricted) if isinstance(restricted, Mask) else restricted

    def why(self, b: int, h: int, q: int, k: int) -> str:
        return self.mask.why(b, h, q + self.queries, k + self.keys)

    def __repr__(self) -> str:
        return f"shifted({self.mask!r}, queries={self.queries}, keys={self.keys})"
