"""Plots from result rows: means over the seeds with their intervals, over numbers or over categories."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard.claims.charts.labels import label
from regard.claims.charts.panels import Plot, Point, ReferenceLine, Series
from regard.claims.claim import Row
from regard.claims.statistics.confidence_intervals import Scale, interval
from regard.claims.statistics.rows import by_seed, values, where
from regard.languages import bilingual

CHANCE = bilingual("chance", "随机猜测")


def chance_line(value: float, category: str | None = None) -> ReferenceLine:
    """Return a reference line at the accuracy of guessing, across the plot or at one category only."""
    return ReferenceLine(value, CHANCE, category)


def point(x: float | str, values: Iterable[float], scale: Scale = "plain") -> Point:
    """Return the mean and interval over seeds at x, without an interval for a single seed.

    >>> point(2, [1.0, 4.0]).mean, point(2, [1.0, 4.0], "ratio").mean
    (2.5, 2.0)
    """
    mean, low, high = interval(list(values), scale)
    return Point(x, mean, *((low, high) if high < float("inf") and low > -float("inf") else (None, None)))


def _scale(rows: Sequence[Row], y: str, options: Mapping[str, Any]) -> Scale:
    """Return the scale of a column: shares are drawn in percent, and positive numbers on a log axis are ratios."""
    numbers = [row[y] for row in rows if row.get(y) is not None]
    if options.get("percent"):
        return "share" if all(0 <= number <= 1 for number in numbers) else "difference"
    return "ratio" if "y" in options.get("log", "") and min(numbers, default=0) > 0 else "plain"


def lines(rows: Sequence[Row], x: str, y: str, by: str, **options: Any) -> Plot:
    """Return a plot with one line for each value of `by`: the mean of `y` over the seeds at each `x`.

    The options are fields of `Plot`.

    >>> rows = [{"seed": seed, "heads": 2, "way": "a", "share": 0.5 + seed} for seed in range(2)]
    >>> lines(rows, "heads", "share", "way").series[0].points[0].mean
    1.0
    """
    series = []
    for key in values(rows, by):
        own = [row for row in where(rows, **{by: key}) if row.get(x) is not None and row.get(y) is not None]
        if own:
            scale = _scale(own, y, options)
            points = (point(at, by_seed(own, y, **{x: at}).values(), scale) for at in sorted(values(own, x)))
            series.append(Series(label(key), tuple(points)))
    return Plot("lines", tuple(series), **options)


def bars(rows: Sequence[Row], x: str, y: str, by: str | None = None, **options: Any) -> Plot:
    """Return a plot with bars of `y` at each value of `x`, side by side for each value of `by`.

    The options are fields of `Plot`.

    >>> rows = [{"seed": 0, "task": "sort", "accuracy": 0.5}]
    >>> bars(rows, "task", "accuracy").categories
    {'sort': {'en': 'sorting', 'zh': '排序'}}
    """
    categories = values(rows, x)
    series = []
    for key in values(rows, by) if by else [None]:
        own = where(rows, **{by: key}) if by else list(rows)
        seeds = {category: by_seed(own, y, **{x: category}) for category in categories}
        scale = _scale(own, y, options)
        points = tuple(point(str(category), each.values(), scale) for category, each in seeds.items() if each)
        series.append(Series(label(y if key is None else key), points))
    names = {str(category): label(category) for category in categories}
    return Plot("bars", tuple(series), **{"categories": names, **options})
