"""Statistics of result rows: intervals, exponents, paired differences, timing."""

import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.claims.claim import Figure, Row
from regard.claims.statistics.confidence_intervals import T, interval, power_law_exponent
from regard.claims.statistics.rows import difference, over_seeds
from regard.claims.statistics.timing import best_times, torch_threads
from regard.languages import bilingual


def density(x: float, degrees: int) -> float:
    """Return the density of Student's t distribution."""
    log = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    return math.exp(log - (degrees + 1) / 2 * math.log1p(x * x / degrees))


def test_quantiles_are_those_of_students_t() -> None:
    for degrees, value in enumerate(T, 1):
        steps = 2000  # Simpson's rule from 0 to the quantile: half of 95 %
        heights = [density(value * n / steps, degrees) for n in range(steps + 1)]
        area = (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])) * value / steps / 3
        assert area == pytest.approx(0.475, abs=4e-5)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40))
def test_interval_is_students(values: list[float]) -> None:
    result = interval(values)
    assert result.mean == pytest.approx(statistics.fmean(values), abs=1e-9)
    assert result.low <= result.mean <= result.high
    t = ([*T, *[1.97] * 20])[len(values) - 2]
    assert result.high - result.mean == pytest.approx(t * statistics.stdev(values) / math.sqrt(len(values)), abs=1e-6)


def test_interval_of_one_seed_is_infinite() -> None:
    result = interval([3.0])
    assert not result.above
    assert not result.below
    with pytest.raises(ValueError, match="at least one value"):
        interval([])


@given(st.floats(-3, 3), st.floats(0.01, 100))
def test_exponent_of_a_power_law(power: float, factor: float) -> None:
    x = [1.0, 2.0, 5.0, 9.0]
    assert power_law_exponent(x, [factor * value**power for value in x]) == pytest.approx(power, abs=1e-6)


def test_differences_are_paired_by_seed() -> None:
    rows: list[Row] = [
        {"seed": seed, "model": model, "x": 10.0 * seed + extra}
        for seed in range(4)
        for model, extra in (("a", 1.0), ("b", 0.0))
    ]
    assert difference(rows, "x", {"model": "a"}, {"model": "b"}) == (1.0, 1.0, 1.0)
    assert not over_seeds(rows, "x", model="a").above  # the seeds differ by far more than the models
    with pytest.raises(ValueError, match="missing"):
        over_seeds(rows, "y")


def test_text_of_figures() -> None:
    name = bilingual("x", "x")
    assert str(Figure(name, 1234.5)) == "1,234"
    assert str(Figure(name, 2.0, 1.5, 2.5, "×")) == "2 × (1.5 … 2.5)"
    assert str(Figure(name, 0.5, -math.inf, math.inf, "%")) == "50.0 % (– … –)"


def test_calls_alternate_and_threads_are_restored() -> None:
    order: list[str] = []
    times = best_times({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=2)
    assert order == ["a", "b", "a", "b", "b", "a"]
    assert set(times) == {"a", "b"}
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
