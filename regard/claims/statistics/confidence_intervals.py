"""95 % confidence intervals over seeds, and the exponent of a power law.

interval    mean ± t₀.₉₇₅(n − 1) · s / √n          Student's t, for n seeds with standard deviation s
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

# 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond, 1.97 is used.
T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


class Interval(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def above(self) -> bool:
        """Whether the whole interval is above 0."""
        return self.low > 0

    @property
    def below(self) -> bool:
        """Whether the whole interval is below 0."""
        return self.high < 0


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of one value per seed with Student's interval, which is infinite for a single seed.

    >>> [round(x, 3) for x in interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    >>> interval([1.0])
    Interval(mean=1.0, low=-inf, high=inf)
    """
    if not values:
        raise ValueError("an interval needs at least one value, got none; a part of the result is missing")
    n, mean = len(values), math.fsum(values) / len(values)
    if n == 1:
        return Interval(mean, -math.inf, math.inf)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    margin = (T[n - 2] if n - 2 < len(T) else 1.97) * deviation / math.sqrt(n)
    return Interval(mean, mean - margin, mean + margin)


def power_law_exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the exponent a of y ∝ xᵃ: the least-squares slope of log y over log x.

    >>> round(power_law_exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    if len(x) != len(y) or len(x) < 2 or min(*x, *y) <= 0:
        raise ValueError(f"an exponent needs at least two points with positive x and y, got {list(x)} and {list(y)}")
    log_x, log_y = [math.log(value) for value in x], [math.log(value) for value in y]
    mean_x, mean_y = sum(log_x) / len(log_x), sum(log_y) / len(log_y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(log_x, log_y, strict=True))
    return covariance / sum((a - mean_x) ** 2 for a in log_x)
