"""Rules on distance alone: causal, window, dilated.

With the distance d = q − k (positive: the key lies before the query),

    causal          0 ≤ d
    window          −ahead ≤ d ≤ W − 1 − ahead
    dilated         0 ≤ d ≤ (W − 1)·step   and   d ≡ 0 (mod step)
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.attention.masks.mask import HIDDEN, MIXED, VISIBLE, Index, Mask, States


class _Band(Mask):
    """Visible where low ≤ q − k ≤ high; no upper bound when high is None."""

    relative = True

    def bounds(self) -> tuple[int, int | None]:
        raise NotImplementedError

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        low, high = self.bounds()
        d = q - k
        return (d >= low) if high is None else (d >= low) & (d <= high)

    def states(self, b: int, q0: int, q1: int, k0: NDArray[np.int64], k1: NDArray[np.int64]) -> States:
        low, high = self.bounds()
        least, most = q0 - (k1 - 1), (q1 - 1) - k0  # the smallest and the largest distance in the block
        hidden, full = most < low, least >= low
        if high is not None:
            hidden, full = hidden | (least > high), full & (most <= high)
        return np.where(hidden, HIDDEN, np.where(full, VISIBLE, MIXED)).astype(np.int8)


@dataclass(frozen=True)
class Causal(_Band):
    def bounds(self) -> tuple[int, int | None]:
        return 0, None

    def because(self, b: int, h: int, q: int, k: int) -> str:
        if k > q:
            return f"causal() hides it (key {k} comes after place {q})"
        return f"causal() shows it (key {k} is not after place {q})"

    def __repr__(self) -> str:
        return "causal()"


@dataclass(frozen=True)
class Window(_Band):
    keys: int
    ahead: int = 0

    def bounds(self) -> tuple[int, int | None]:
        return -self.ahead, self.keys - 1 - self.ahead

    def because(self, b: int, h: int, q: int, k: int) -> str:
        low, high = self.bounds()
        assert high is not None
        reach = f"the window reaches from key {max(0, q - high)} to key {q - low}"
        return f"{self!r} {'shows' if low <= q - k <= high else 'hides'} it ({reach})"

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

    def states(self, b: int, q0: int, q1: int, k0: NDArray[np.int64], k1: NDArray[np.int64]) -> States:
        inside = super().states(b, q0, q1, k0, k1)
        return inside if self.step == 1 else np.minimum(inside, MIXED).astype(np.int8)

    def because(self, b: int, h: int, q: int, k: int) -> str:
        seen = bool(self.visible(b, h, np.array(q), np.array(k)))
        stop = q - (self.keys - 1) * self.step
        return f"{self!r} {'shows' if seen else 'hides'} it (it shows keys {q}, {q - self.step}, … down to {stop})"

    def __repr__(self) -> str:
        return f"dilated(keys={self.keys}, step={self.step})"


def causal() -> Mask:
    """Each query sees its own place and what comes before it; the last query sees every key.

    >>> print(causal().draw(3, 5))
    ■ ■ ■ · ·
    ■ ■ ■ ■ ·
    ■ ■ ■ ■ ■
    """
    return Causal()


def window(keys: int, *, ahead: int = 0) -> Mask:
    """Each query sees at most `keys` keys, its own place among them; `ahead` of them lie after it.

    `window(keys=2 * r + 1, ahead=r)` is the window that reaches r to both sides.

    >>> print(window(keys=2).draw(4, 4))
    ■ · · ·
    ■ ■ · ·
    · ■ ■ ·
    · · ■ ■
    """
    keys = whole("window(keys=…)", keys, 1, "the query's own place is one of them")
    ahead = whole("window(ahead=…)", ahead, 0, "it counts the keys after the query")
    if ahead >= keys:
        raise ValueError(
            f"window(keys={keys}, ahead={ahead}): at most keys − 1 = {keys - 1} can lie ahead, "
            "since the query's own place is one of the keys"
        )
    return Window(keys, ahead)


def dilated(keys: int, *, step: int) -> Mask:
    """Each query sees its own place and every `step`-th place before it, at most `keys` in all.

    >>> print(dilated(keys=2, step=2).draw(4, 4))
    ■ · · ·
    · ■ · ·
    ■ · ■ ·
    · ■ · ■
    """
    return Dilated(
        whole("dilated(keys=…)", keys, 1, "the query's own place is one of them"),
        whole("dilated(step=…)", step, 1, "1 is a plain window"),
    )


def whole(what: str, number: Any, least: int, why: str) -> int:
    """The number as an int, or an error that says what was expected."""
    if isinstance(number, bool):
        raise TypeError(f"{what} must be a whole number, got {number!r}")
    try:
        value = operator.index(number)
    except TypeError:
        raise TypeError(f"{what} must be a whole number, got {number!r}") from None
    if value < least:
        raise ValueError(f"{what} must be at least {least}, got {value}: {why}")
    return value
