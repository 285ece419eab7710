"""Reading rows: one number a seed, means with intervals, differences seed by seed."""

from collections.abc import Sequence
from typing import Any

from regard.claims.claim import Figure, Row
from regard.claims.statistics.intervals import Interval, interval
from regard.languages import Bilingual


def where(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows that have these values.

    >>> where([{"heads": 1, "seed": 0}, {"heads": 2, "seed": 0}], heads=2)
    [{'heads': 2, 'seed': 0}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def values(rows: Sequence[Row], name: str) -> list[Any]:
    """What there is of this name, each once, in the order of the rows.

    >>> values([{"heads": 2}, {"heads": 1}, {"heads": 2}, {}], "heads")
    [2, 1]
    """
    return list(dict.fromkeys(row[name] for row in rows if name in row))


def by_seed(rows: Sequence[Row], name: str, **wanted: Any) -> dict[int, float]:
    """The mean of a number for each seed.

    >>> by_seed([{"seed": 0, "x": 1.0}, {"seed": 0, "x": 3.0}, {"seed": 1, "x": 5.0}], "x")
    {0: 2.0, 1: 5.0}
    """
    found: dict[int, list[float]] = {}
    for row in where(rows, **wanted):
        if row.get(name) is not None:
            found.setdefault(int(row["seed"]), []).append(float(row[name]))
    return {seed: sum(numbers) / len(numbers) for seed, numbers in sorted(found.items())}


def over_seeds(rows: Sequence[Row], name: str, **wanted: Any) -> Interval:
    """Mean and interval over the seeds."""
    found = by_seed(rows, name, **wanted)
    if not found:
        raise ValueError(f"no row has {name!r} with {wanted}: is a part of the result missing?")
    return interval(list(found.values()))


def difference(rows: Sequence[Row], name: str, one: dict[str, Any], other: dict[str, Any]) -> Interval:
    """How much more the one has than the other: differences of the same seed, then mean and interval."""
    a, b = by_seed(rows, name, **one), by_seed(rows, name, **other)
    both = sorted(a.keys() & b.keys())
    if not both:
        raise ValueError(f"no seed has {name!r} with both {one} and {other}: is a part of the result missing?")
    return interval([a[seed] - b[seed] for seed in both])


def figure(name: Bilingual, found: Interval | float, unit: str = "") -> Figure:
    """A figure of an interval, or of a number that does not vary."""
    if isinstance(found, Interval):
        return Figure(name, found.mean, found.low, found.high, unit)
    return Figure(name, found, unit=unit)
