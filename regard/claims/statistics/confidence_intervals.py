"""Confidence intervals over seeds, the tests that belong to them, and the exponent of a power law.

The scale of the numbers decides the method:

    plain         mean ± t · s / √n                                    Student's t for n seeds, standard deviation s
    difference    the same with s ≥ 1/256, limited to −1 … 1           difference of two shares
    ratio         exp of Student's interval of the logarithms          times, losses, norms: the mean is geometric
    share         (p + t²/2m ± t·√(p(1−p)/m + t²/4m²)) / (1 + t²/m)    Wilson's interval, always within 0 … 1

A share has m independent examples, by the variation between seeds: m = n · p(1−p) / s². Seeds that agree exactly would
give infinitely many; m is therefore at most n · 256, and the deviation of differences is at least 1/256.

A threshold is outside the interval at a level exactly if the p-value of the test against it is below that level.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from regard.claims.statistics.student import two_sided_p, two_sided_quantile

LEVEL = 0.05
EXAMPLES = 256  # largest number of independent examples that one seed counts for
MOST_SEEDS = 10_000
Scale = Literal["plain", "difference", "ratio", "share"]


class Interval(NamedTuple):
    """A mean and its interval."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float], scale: Scale = "plain", level: float = LEVEL) -> Interval:
    """Return the mean of one value per seed and its interval; for a single seed the interval is unlimited.

    >>> [round(x, 3) for x in interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    >>> [round(x, 3) for x in interval([0.99, 1.0, 1.0], "share")]
    [0.997, 0.936, 1.0]
    """
    mean, spread = _mean_and_spread(values, scale)
    n = len(values)
    if n == 1:
        low, high = -math.inf, math.inf
    elif scale == "share":
        t = two_sided_quantile(level, n - 1)
        examples = _examples(mean, spread, n)
        centre = (mean + t * t / (2 * examples)) / (1 + t * t / examples)
        root = math.sqrt(mean * (1 - mean) / examples + t * t / (4 * examples * examples))
        margin = t * root / (1 + t * t / examples)
        low, high = min(centre - margin, mean), max(centre + margin, mean)
    else:
        margin = two_sided_quantile(level, n - 1) * spread / math.sqrt(n)
        low, high = mean - margin, mean + margin
    if scale == "ratio":
        return Interval(math.exp(mean), math.exp(low) if n > 1 else 0.0, math.exp(min(high, 700)) if n > 1 else high)
    limits = {"plain": (-math.inf, math.inf), "difference": (-1.0, 1.0), "share": (0.0, 1.0)}[scale]
    return Interval(mean, max(low, limits[0]), min(high, limits[1]))


def p_value(values: Sequence[float], threshold: float, scale: Scale = "plain", seeds: int | None = None) -> float:
    """Return the two-sided p-value of the test whether the mean equals the threshold; 1 for a single seed.

    seeds       number of seeds, if it is not the number of values: the test with more seeds of the same variation

    >>> round(p_value([1.0, 2.0, 3.0], 0.0), 3)
    0.074
    """
    mean, spread = _mean_and_spread(values, scale)
    n = len(values) if seeds is None else seeds
    if len(values) == 1 or n < 2:
        return 1.0
    if scale == "share":
        error = math.sqrt(threshold * (1 - threshold) / _examples(mean, spread, n))
    else:
        threshold = math.log(threshold) if scale == "ratio" else threshold
        error = spread / math.sqrt(n)
    distance = mean - threshold
    if abs(distance) <= 1e-12 * max(1.0, abs(threshold)):
        return 1.0
    return two_sided_p(distance / error if error else math.inf, n - 1)


def seeds_to_decide(
    values: Sequence[float], threshold: float, scale: Scale = "plain", level: float = LEVEL
) -> int | None:
    """Return how many seeds of the same mean and variation put the threshold outside the interval.

    None if that takes more than 10,000 seeds, or if a single seed does not show the variation.

    >>> seeds_to_decide([1.0, 2.0, 3.0], 0.0)
    4
    """
    if len(values) < 2:
        return None
    low, high = 2, 4
    while p_value(values, threshold, scale, high) >= level:
        low, high = high, 2 * high
        if high > MOST_SEEDS:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if p_value(values, threshold, scale, middle) >= level else (low, middle)
    return high


def _mean_and_spread(values: Sequence[float], scale: Scale) -> tuple[float, float]:
    """Return mean and standard deviation, of the logarithms for ratios."""
    if not values:
        raise ValueError("an interval needs at least one value, got none; a part of the result is missing")
    if scale == "ratio":
        values = [math.log(max(value, 1e-300)) for value in values]
    n, mean = len(values), math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1)) if n > 1 else 0.0
    return mean, max(spread, 1 / EXAMPLES) if scale == "difference" else spread


def _examples(mean: float, spread: float, seeds: int) -> float:
    """Return the number of independent examples behind a share."""
    independent = mean * (1 - mean) / spread**2 if spread > 0 else math.inf
    return seeds * min(max(independent, 0.01), EXAMPLES)


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
