"""How sure a number is: intervals over seeds, over games, and of what a line's slope is.

over seeds      mean ± t₀.₉₇₅(n − 1) · s / √n                                 (Student; no wish for many seeds)
of a share      the interval of Wilson for k of n, that never leaves 0 … 1
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

# 97.5 % quantiles of Student's t for 1, 2, … degrees of freedom; then those of the normal distribution, nearly.
T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


class Interval(NamedTuple):
    """A mean and the 95 % interval around it."""

    mean: float
    low: float
    high: float

    @property
    def above(self) -> bool:
        """Whether it lies above 0 altogether."""
        return self.low > 0

    @property
    def below(self) -> bool:
        """Whether it lies below 0 altogether."""
        return self.high < 0


def interval(values: Sequence[float]) -> Interval:
    """The mean of one number a seed, with Student's interval; of one seed, nothing is sure.

    >>> [round(x, 3) for x in interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    >>> interval([1.0])
    Interval(mean=1.0, low=-inf, high=inf)
    """
    if not values:
        raise ValueError("an interval needs at least one value, got none: is a part of the result missing?")
    n, mean = len(values), math.fsum(values) / len(values)
    if n == 1:
        return Interval(mean, -math.inf, math.inf)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    margin = (T[n - 2] if n - 2 < len(T) else 1.97) * spread / math.sqrt(n)
    return Interval(mean, mean - margin, mean + margin)


def share(successes: float, of: int) -> Interval:
    """The share of successes with Wilson's interval; half a success is a draw.

    >>> [round(x, 3) for x in share(8, 10)]
    [0.8, 0.49, 0.943]
    """
    if of < 1 or not 0 <= successes <= of:
        raise ValueError(f"a share is of at least one trial and no more successes than trials, got {successes} of {of}")
    z, p = 1.96, successes / of
    middle = (p + z * z / (2 * of)) / (1 + z * z / of)
    margin = z / (1 + z * z / of) * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    return Interval(p, middle - margin, middle + margin)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent a in y ∝ xᵃ: the slope of the straight line through the logarithms.

    >>> round(slope([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    if len(x) != len(y) or len(x) < 2 or min(*x, *y) <= 0:
        raise ValueError(f"an exponent needs two or more positive points, got {list(x)} and {list(y)}")
    a, b = [math.log(value) for value in x], [math.log(value) for value in y]
    middle, height = sum(a) / len(a), sum(b) / len(b)
    across = sum((p - middle) ** 2 for p in a)
    return sum((p - middle) * (q - height) for p, q in zip(a, b, strict=True)) / across
