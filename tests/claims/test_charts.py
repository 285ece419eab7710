"""Plots made from result rows."""

from regard.claims.charts.from_rows import bars, lines
from regard.claims.charts.panels import Point
from regard.claims.claim import Row
from regard.claims.statistics.confidence_intervals import interval


def test_plots_are_means_with_intervals_over_seeds() -> None:
    rows: list[Row] = [
        {"seed": seed, "heads": heads, "way": way, "x": 0.1 * seed + heads if way == "mask on" or not seed else None}
        for seed in range(3)
        for heads in (4, 2)
        for way in ("mask on", "mask off")
    ]
    several, single = lines(rows, "heads", "x", "way").series
    assert several.name == {"en": "mask on", "zh": "有掩码"}
    assert [point.x for point in several.points] == [2, 4]
    assert several.points[0] == (2, *interval([2.0, 2.1, 2.2]))
    assert single.points == ((2, 2.0, None, None), (4, 4.0, None, None))  # one seed has no interval
    assert [one.points for one in bars(rows, "heads", "x", "way").series] == [
        tuple(Point(str(point.x), *point[1:]) for point in reversed(series.points)) for series in (several, single)
    ]
