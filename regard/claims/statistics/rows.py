"""Selection and averaging of result rows: values by seed, means with intervals, paired differences, figures."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from regard.claims.charts.labels import label
from regard.claims.claim import Figure, Row
from regard.claims.statistics.confidence_intervals import Interval, Scale, interval
from regard.languages import Bilingual, fill_in


def where(rows: Sequence[Row], **conditions: Any) -> list[Row]:
    """Return the rows that have these values in the named columns.

    >>> where([{"heads": 1, "seed": 0}, {"heads": 2, "seed": 0}], heads=2)
    [{'heads': 2, 'seed': 0}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in conditions.items())]


def values(rows: Sequence[Row], name: str) -> list[Any]:
    """Return the distinct values of a column, in the order of the rows.

    >>> values([{"heads": 2}, {"heads": 1}, {"heads": 2}, {}], "heads")
    [2, 1]
    """
    return list(dict.fromkeys(row[name] for row in rows if name in row))


def by_seed(rows: Sequence[Row], name: str, **conditions: Any) -> dict[int, float]:
    """Return the mean of a column for each seed, over the rows that meet the conditions.

    >>> by_seed([{"seed": 0, "x": 1.0}, {"seed": 0, "x": 3.0}, {"seed": 1, "x": 5.0}], "x")
    {0: 2.0, 1: 5.0}
    """
    numbers: dict[int, list[float]] = {}
    for row in where(rows, **conditions):
        if row.get(name) is not None:
            numbers.setdefault(int(row["seed"]), []).append(float(row[name]))
    return {seed: sum(own) / len(own) for seed, own in sorted(numbers.items())}


def per_seed(rows: Sequence[Row], name: str, **conditions: Any) -> list[float]:
    """Return the mean of a column for each seed, without the seeds; empty if no row meets the conditions.

    >>> per_seed([{"seed": 0, "x": 1.0}, {"seed": 0, "x": 3.0}, {"seed": 1, "x": 5.0}], "x")
    [2.0, 5.0]
    """
    return list(by_seed(rows, name, **conditions).values())


def over_seeds(rows: Sequence[Row], name: str, scale: Scale = "plain", **conditions: Any) -> Interval:
    """Return the mean and interval of a column over the seeds."""
    means = per_seed(rows, name, **conditions)
    if not means:
        raise ValueError(f"no row has {name!r} with {conditions}; a part of the result is missing")
    return interval(means, scale)


def differences(rows: Sequence[Row], name: str, first: dict[str, Any], second: dict[str, Any]) -> list[float]:
    """Return first − second for each seed that has both; empty if none has."""
    a, b = by_seed(rows, name, **first), by_seed(rows, name, **second)
    return [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]


def ratios(rows: Sequence[Row], name: str, first: dict[str, Any], second: dict[str, Any]) -> list[float]:
    """Return first / second for each seed that has both; empty if none has."""
    a, b = by_seed(rows, name, **first), by_seed(rows, name, **second)
    return [a[seed] / b[seed] for seed in sorted(a.keys() & b.keys())]


def figure(name: Bilingual, value: Interval | float, unit: str = "") -> Figure:
    """Return a `Figure` from an interval, or from a number that is the same for all seeds."""
    if isinstance(value, Interval):
        return Figure(name, value.mean, value.low, value.high, unit)
    return Figure(name, value, unit=unit)


def figures(
    rows: Sequence[Row], column: str, name: Bilingual, unit: str = "", scale: Scale | None = None, **axes: Iterable[Any]
) -> list[Figure]:
    """Return the mean of a column over the seeds, for each combination of the values of `axes`.

    The name has a {field} for each axis. Percentages are shares and multiples (×) ratios unless a scale is given.

    >>> rows = [{"seed": 0, "heads": heads, "accuracy": heads / 4} for heads in (1, 2)]
    >>> name = {"en": "accuracy, {heads}", "zh": "准确率，{heads}"}
    >>> [(one.name["en"], one.value) for one in figures(rows, "accuracy", name, heads=(1, 2))]
    [('accuracy, 1', 0.25), ('accuracy, 2', 0.5)]
    """
    by_unit: dict[str, Scale] = {"%": "share", "×": "ratio"}
    scale = scale or by_unit.get(unit, "plain")
    result = []
    for combination in product(*axes.values()):
        conditions = dict(zip(axes, combination, strict=True))
        labels = {axis: label(value) for axis, value in conditions.items()}
        result.append(figure(fill_in(name, **labels), over_seeds(rows, column, scale, **conditions), unit))
    return result
