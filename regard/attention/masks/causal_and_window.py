"""Masks that depend on distance only: causal, window and dilated.

With the distance d = q − k (positive if the key is before the query), a pair is visible if

    causal          0 ≤ d
    window          −ahead ≤ d ≤ W − 1 − ahead
    dilated         0 ≤ d ≤ (W − 1)·step   and   d ≡ 0 (mod step)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.attention.integer_arguments import check_integer
from regard.attention.masks.export import Index
from regard.attention.masks.mask import MIXED, Mask, Positions, States, block_states


class _Band(Mask):
    """Visible where low ≤ q − k ≤ high; no upper bound if high is None."""

    relative = True

    def bounds(self) -> tuple[int, int | None]:
        raise NotImplementedError

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        low, high = self.bounds()
        d = q - k
        return (d >= low) if high is None else (d >= low) & (d <= high)

    def states(self, b: int, q0: int, q1: int, k0: Positions, k1: Positions) -> States:
        low, high = self.bounds()
        smallest, largest = q0 - (k1 - 1), (q1 - 1) - k0  # distances in the block
        hidden, visible = largest < low, smallest >= low
        if high is not None:
            hidden, visible = hidden | (smallest > high), visible & (largest <= high)
        return block_states(hidden, visible)


@dataclass(frozen=True)
class Causal(_Band):
    def bounds(self) -> tuple[int, int | None]:
        return 0, None

    def _reason(self, b: int, h: int, q: int, k: int) -> str:
        return f"key {k} {'comes' if k > q else 'is not'} after position {q}"

    def __repr__(self) -> str:
        return "causal()"


@dataclass(frozen=True)
class Window(_Band):
    keys: int
    ahead: int = 0

    def bounds(self) -> tuple[int, int]:
        return -self.ahead, self.keys - 1 - self.ahead

    def _reason(self, b: int, h: int, q: int, k: int) -> str:
        low, high = self.bounds()
        return f"the window reaches from key {max(0, q - high)} to key {q - low}"

    def __repr__(self) -> str:
        return f"window(keys={self.keys}" + (f", ahead={self.ahead})" if self.ahead else ")")


@dataclass(frozen=True)
class Dilated(_Band):
    keys: int
    step: int

    def bounds(self) -> tuple[int, int | None]:
        return 0, (self.keys - 1) * self.step

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        return super().visible(b, h, q, k) & ((q - k) % self.step == 0)

    def states(self, b: int, q0: int, q1: int, k0: Positions, k1: Positions) -> States:
        states = super().states(b, q0, q1, k0, k1)
        return states if self.step == 1 else np.minimum(states, MIXED).astype(np.int8)

    def _reason(self, b: int, h: int, q: int, k: int) -> str:
        return f"it shows keys {q}, {q - self.step}, … down to {q - (self.keys - 1) * self.step}"

    def __repr__(self) -> str:
        return f"dilated(keys={self.keys}, step={self.step})"


def causal() -> Mask:
    """Return a mask with which each query sees its own position and all before it; the last query sees every key.

    >>> print(causal().draw(3, 5))
    ■ ■ ■ · ·
    ■ ■ ■ ■ ·
    ■ ■ ■ ■ ■
    """
    return Causal()


def window(keys: int, *, ahead: int = 0) -> Mask:
    """Return a mask with which each query sees at most `keys` keys, its own position among them.

    `ahead` of the keys are after the query, the others before it.

    `window(keys=2 * r + 1, ahead=r)` is a window that reaches r positions to both sides.

    >>> print(window(keys=2).draw(4, 4))
    ■ · · ·
    ■ ■ · ·
    · ■ ■ ·
    · · ■ ■
    """
    keys = check_integer("window(keys=…)", keys, 1, "the query's own position is one of them")
    ahead = check_integer("window(ahead=…)", ahead, 0, "it counts the keys after the query")
    if ahead >= keys:
        raise ValueError(
            f"window(keys={keys}, ahead={ahead}): at most keys − 1 = {keys - 1} can be ahead, "
            "since the query's own position is one of the keys"
        )
    return Window(keys, ahead)


def dilated(keys: int, *, step: int) -> Mask:
    """Return a mask with which each query sees its own position and every `step`-th before it, at most `keys` in all.

    >>> print(dilated(keys=2, step=2).draw(4, 4))
    ■ · · ·
    · ■ · ·
    ■ · ■ ·
    · ■ · ■
    """
    return Dilated(
        check_integer("dilated(keys=…)", keys, 1, "the query's own position is one of them"),
        check_integer("dilated(step=…)", step, 1, "1 is a plain window"),
    )
