"""From rows to plots: means over seeds with their intervals, along numbers or at names."""

from collections.abc import Iterable, Sequence
from typing import Any

from regard.claims.charts.chart import Chart, Level, Plot, Point, Series, Table
from regard.claims.charts.labels import called
from regard.claims.claim import Row, words
from regard.claims.statistics.intervals import interval
from regard.claims.statistics.rows import by_seed, values, where
from regard.languages import Bilingual

CHANCE = words("chance", "随机猜测")


def point(x: float | str, found: Iterable[float], log: bool = False) -> Point:
    """Mean and interval over seeds, at a place; a logarithmic height has no room for an interval that reaches 0."""
    seen = interval(list(found))
    sure = seen.high < float("inf") and not (log and seen.low <= 0)
    return Point(x, seen.mean, seen.low if sure else None, seen.high if sure else None)


def lines(rows: Sequence[Row], x: str, y: str, by: str, **more: Any) -> Plot:
    """A line for each value of `by`: the mean of `y` over seeds along `x`. `more` is that of a `Plot`.

    >>> rows = [{"seed": seed, "heads": 2, "way": "a", "share": 0.5 + seed} for seed in range(2)]
    >>> lines(rows, "heads", "share", "way").series[0].points[0].mean
    1.0
    """
    series = []
    for key in values(rows, by):
        own = [row for row in where(rows, **{by: key}) if row.get(x) is not None and row.get(y) is not None]
        if own:
            log = "y" in more.get("log", "")
            points = (point(at, by_seed(own, y, **{x: at}).values(), log) for at in sorted(values(own, x)))
            series.append(Series(called(key), tuple(points)))
    return Plot("lines", tuple(series), **more)


def bars(rows: Sequence[Row], x: str, y: str, by: str | None = None, **more: Any) -> Plot:
    """Bars of `y` at each value of `x`, side by side for each value of `by`."""
    along = values(rows, x)
    series = []
    for key in values(rows, by) if by else [None]:
        own = where(rows, **{by: key}) if by else list(rows)
        found = {at: by_seed(own, y, **{x: at}) for at in along}
        points = tuple(point(str(at), seeds.values()) for at, seeds in found.items() if seeds)
        series.append(Series(called(y if key is None else key), points))
    places = {str(at): called(at) for at in along}
    return Plot("bars", tuple(series), **{"places": places, **more})


def level(height: float, name: Bilingual = CHANCE, x: str | None = None) -> Level:
    """A thin line across, that of chance unless another is named."""
    return Level(height, name, x)


def chart(title: Bilingual, *panels: Plot | Table) -> Chart:
    """Plots side by side."""
    return Chart(title, panels)
