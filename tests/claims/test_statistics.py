"""Statistics of result rows: intervals, exponents, paired differences, timing."""

import math
import statistics

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from regard.claims.claim import Figure, Row
from regard.claims.statistics.confidence_intervals import (
    Scale,
    interval,
    p_value,
    power_law_exponent,
    seeds_to_decide,
)
from regard.claims.statistics.rows import differences, over_seeds, ratios
from regard.claims.statistics.statements import Statement, answer_all
from regard.claims.statistics.student import two_sided_p, two_sided_quantile
from regard.claims.statistics.timing import best_times, require_idle_machine, torch_threads
from regard.languages import bilingual


def density(x: float, degrees: int) -> float:
    """Return the density of Student's t distribution."""
    log = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    return math.exp(log - (degrees + 1) / 2 * math.log1p(x * x / degrees))


def test_tail_probabilities_are_those_of_students_t() -> None:
    for degrees in (1, 2, 3, 4, 9, 30, 99, 1000):
        for t in (0.3, 1.0, 2.5):
            steps = 2000  # Simpson's rule from 0 to t
            heights = [density(t * n / steps, degrees) for n in range(steps + 1)]
            area = (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])) * t / steps / 3
            assert two_sided_p(t, degrees) == pytest.approx(1 - 2 * area, abs=1e-6)
            assert two_sided_quantile(two_sided_p(t, degrees), degrees) == pytest.approx(t, abs=1e-6)
    assert two_sided_p(float("inf"), 3) == 0
    for call in (lambda: two_sided_p(1, 0), lambda: two_sided_quantile(1.5, 3)):
        with pytest.raises(ValueError, match="must be"):
            call()


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40))
def test_interval_is_students(values: list[float]) -> None:
    result = interval(values)
    assert result.mean == pytest.approx(statistics.fmean(values), abs=1e-9)
    assert result.low <= result.mean <= result.high
    t = two_sided_quantile(0.05, len(values) - 1)
    assert result.high - result.mean == pytest.approx(t * statistics.stdev(values) / math.sqrt(len(values)), abs=1e-6)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_intervals_of_shares_stay_between_0_and_100_percent(values: list[float]) -> None:
    for scale in ("share", "difference"):
        mean, low, high = interval(values, scale)
        assert low <= mean + 1e-12
        assert mean <= high + 1e-12
        if len(values) > 1:
            assert -(scale == "difference") <= low
            assert high <= 1


def test_share_of_many_examples_is_wilsons_interval() -> None:
    values = [0.5 + 0.5 * (-1) ** n for n in range(400)]  # one example a seed
    _, low, high = interval(values, "share")
    z, n = 1.966, 400
    margin = z * math.sqrt(0.25 / n + z * z / (4 * n * n)) / (1 + z * z / n)
    assert (low, high) == pytest.approx((0.5 - margin, 0.5 + margin), abs=1e-3)


SCALES: list[tuple[Scale, float, float]] = [
    ("plain", -5, 5), ("difference", -0.9, 0.9), ("share", 0.02, 0.98), ("ratio", 0.1, 10)
]  # fmt: skip


@given(st.sampled_from(SCALES), st.data())
def test_p_value_agrees_with_the_interval(case: tuple[Scale, float, float], data: st.DataObject) -> None:
    scale, least, most = case
    values = data.draw(st.lists(st.floats(least, most), min_size=2, max_size=20))
    threshold, level = data.draw(st.floats(least, most)), data.draw(st.sampled_from([0.05, 0.01, 0.004]))
    _, low, high = interval(values, scale, level)
    p = p_value(values, threshold, scale)
    assume(abs(p - level) > 1e-6)
    assume(min(abs(threshold - low), abs(threshold - high)) > 1e-9)
    assert (p < level) == (not low <= threshold <= high)


def test_seeds_to_decide_is_the_smallest_number() -> None:
    values = [0.2, 0.6, 0.9, 0.5]
    seeds = seeds_to_decide(values, 0.4)
    assert seeds is not None
    assert p_value(values, 0.4, seeds=seeds) < 0.05 <= p_value(values, 0.4, seeds=seeds - 1)
    assert seeds_to_decide([1.0], 0.0) is None
    assert seeds_to_decide([1.0, 3.0], 2.0) is None


def test_several_statements_are_corrected_by_holm() -> None:
    def statement(mean: float) -> Statement:
        return Statement(bilingual("x", "x"), [mean - 1, mean, mean + 1], 0.0)

    alone = answer_all([statement(3.0)])[0]
    together = answer_all([statement(3.0)] * 1 + [statement(3.1), statement(100.0)])
    assert alone.answer == "yes"
    assert [one.answer for one in together] == ["undecided", "undecided", "yes"]
    assert [round(one.confidence, 4) for one in together] == [0.975, 0.975, 0.9833]
    assert answer_all([Statement(bilingual("x", "x"), [], 0.0)])[0].answer == "undecided"


def test_interval_of_one_seed_is_infinite() -> None:
    assert interval([3.0])[1:] == (-math.inf, math.inf)
    assert p_value([3.0], 0.0) == 1
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
    assert differences(rows, "x", {"model": "a"}, {"model": "b"}) == [1.0] * 4
    assert ratios(rows[2:], "x", {"model": "a"}, {"model": "b"}) == [1.1, 1.05, pytest.approx(31 / 30)]
    assert over_seeds(rows, "x", model="a").low < 0  # the seeds differ by far more than the models
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


def test_wall_time_is_refused_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1000.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="need an idle machine, but the load average is 1000"):
        best_times({"a": lambda: 1}, repeats=1, threads=2)
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 0.0, 0.0))
    require_idle_machine()
