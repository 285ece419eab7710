"""Intervals, fitting, results that are kept, and runs that go on."""

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.claims import Claim, Conclusion, Figure, claim_named, read, run
from regard.claims.charts.from_rows import bars, lines
from regard.claims.charts.panels import Point
from regard.claims.claim import Row
from regard.claims.result import Part, Result
from regard.claims.statistics.intervals import T, interval, share, slope
from regard.claims.statistics.rows import difference, over_seeds
from regard.claims.statistics.timing import best_times, threads
from regard.claims.tasks.fit import fit, match_parameters, parameters
from regard.languages import bilingual


def density(x: float, degrees: int) -> float:
    """Student's t."""
    log = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    return math.exp(log - (degrees + 1) / 2 * math.log1p(x * x / degrees))


def test_the_table_of_t() -> None:
    for degrees, value in enumerate(T, 1):
        steps = 2000  # Simpson's rule from 0 to the quantile: half of 95 %
        heights = [density(value * n / steps, degrees) for n in range(steps + 1)]
        area = (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])) * value / steps / 3
        assert area == pytest.approx(0.475, abs=4e-5)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40))
def test_an_interval_is_that_of_student(values: list[float]) -> None:
    found = interval(values)
    assert found.mean == pytest.approx(statistics.fmean(values), abs=1e-9)
    assert found.low <= found.mean <= found.high
    t = ([*T, *[1.97] * 20])[len(values) - 2]
    assert found.high - found.mean == pytest.approx(t * statistics.stdev(values) / math.sqrt(len(values)), abs=1e-6)


def test_one_seed_proves_nothing() -> None:
    found = interval([3.0])
    assert not found.above
    assert not found.below
    with pytest.raises(ValueError, match="at least one value"):
        interval([])


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_is_that_of_wilson(both: tuple[int, int]) -> None:
    successes, of = both
    found = share(successes, of)
    for end in (found.low, found.high):  # the ends are where the share found is 1.96 standard errors away
        away = abs(successes / of - end)
        assert away == pytest.approx(1.96 * math.sqrt(max(end * (1 - end), 0) / of), abs=1e-6)
    assert -1e-12 <= found.low <= found.mean + 1e-12
    assert found.mean - 1e-12 <= found.high <= 1 + 1e-12


@given(st.floats(-3, 3), st.floats(0.01, 100))
def test_a_power_has_its_exponent(power: float, factor: float) -> None:
    x = [1.0, 2.0, 5.0, 9.0]
    assert slope(x, [factor * value**power for value in x]) == pytest.approx(power, abs=1e-6)


def test_plots_are_means_with_intervals_over_seeds() -> None:
    rows: list[Row] = [
        {"seed": seed, "heads": heads, "way": way, "x": 0.1 * seed + heads if way == "mask on" or not seed else None}
        for seed in range(3)
        for heads in (4, 2)
        for way in ("mask on", "mask off")
    ]
    sure, unsure = lines(rows, "heads", "x", "way").series
    assert sure.name == {"en": "mask on", "zh": "有掩码"}
    assert [point.x for point in sure.points] == [2, 4]
    assert sure.points[0] == (2, *interval([2.0, 2.1, 2.2]))
    assert unsure.points == ((2, 2.0, None, None), (4, 4.0, None, None))  # of one seed nothing is sure
    assert [one.points for one in bars(rows, "heads", "x", "way").series] == [
        tuple(Point(str(point.x), *point[1:]) for point in reversed(series.points)) for series in (sure, unsure)
    ]


def test_differences_are_taken_seed_by_seed() -> None:
    rows: list[Row] = [
        {"seed": seed, "model": model, "x": 10.0 * seed + extra}
        for seed in range(4)
        for model, extra in (("a", 1.0), ("b", 0.0))
    ]
    assert difference(rows, "x", {"model": "a"}, {"model": "b"}) == (1.0, 1.0, 1.0)
    assert not over_seeds(rows, "x", model="a").above  # the seeds themselves differ by far more
    with pytest.raises(ValueError, match="missing"):
        over_seeds(rows, "y")


def test_figures_as_text() -> None:
    name = bilingual("x", "x")
    assert str(Figure(name, 1234.5)) == "1,234"
    assert str(Figure(name, 2.0, 1.5, 2.5, "×")) == "2 × (1.5 … 2.5)"
    assert str(Figure(name, 0.5, -math.inf, math.inf, "%")) == "50.0 % (– … –)"


def test_fit_marks_and_stops() -> None:
    line = nn.Linear(1, 1)
    marks = fit(line, lambda _: line.weight.square().sum(), 10, marks=5, score_of=lambda: float(line.training))
    assert [mark.step for mark in marks] == [2, 4, 6, 8, 10]
    assert all(mark.score == 0 for mark in marks)  # scored in eval mode
    assert marks[-1].seconds >= marks[0].seconds
    soon = fit(line, lambda _: line.weight.square().sum(), 10**6, seconds=0.05)
    assert soon[-1].step < 10**6
    with pytest.raises(ValueError, match="no more marks than steps"):
        fit(line, lambda _: line.weight.sum(), 2, marks=3)


@given(st.integers(1, 5000))
def test_the_nearest_width_is_found(target: int) -> None:
    found = match_parameters(lambda width: nn.Linear(width, 7), target, range(1, 64))
    assert abs(parameters(found) - target) == min(abs(7 * width + 7 - target) for width in range(1, 64))


def test_calls_take_turns_and_threads_are_put_back() -> None:
    order: list[str] = []
    times = best_times({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=2)
    assert order == ["a", "b", "a", "b", "b", "a"]
    assert set(times) == {"a", "b"}
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def small_claim(measure: Any) -> Claim:
    """A claim of three parts and two seeds, measured as given."""
    size = {"seeds": 2, "numbers": (1, 2, 3)}
    return replace(
        claim_named("mask"),
        name="small",
        sizes={"tiny": size, "default": size, "full": {**size, "numbers": (1, 2, 3, 4)}},
        parts=lambda settings: [{"number": number} for number in settings["numbers"]],
        measure=measure,
        judge=lambda rows: Conclusion("holds", bilingual("yes", "是")),
    )


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def measure(settings: Any, part: Any, seed: int) -> list[Row]:
        if len(seen) == 4:
            raise KeyboardInterrupt
        seen.append((seed, part["number"]))
        return [{"x": float(torch.rand(()))}]

    with pytest.raises(KeyboardInterrupt):
        run(small_claim(measure), folder=tmp_path)
    begun = read(tmp_path / "small.json")
    assert (len(begun.parts), begun.expected_parts, begun.complete) == (4, 6, False)
    seen.pop()
    seen.clear()
    whole = run(small_claim(measure), folder=tmp_path)
    assert seen == [(1, 2), (1, 3)]
    assert whole.parts[:4] == begun.parts
    assert whole.complete
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.json"]


def test_more_seeds_keep_those_there_are(tmp_path: Path) -> None:
    def measure(settings: Any, part: Any, seed: int) -> list[Row]:
        return [{"x": float(torch.rand(()))}]

    two = run(small_claim(measure), folder=tmp_path)
    three = run(small_claim(measure), folder=tmp_path, seeds=3)
    assert three.parts[:6] == two.parts
    assert (len(three.parts), three.seeds, three.command) == (9, 3, "regard claims run small --seeds 3")


def test_a_longer_result_is_not_overwritten_unasked(tmp_path: Path) -> None:
    one = small_claim(lambda *_: [{"x": 1.0}])
    run(one, "full", folder=tmp_path)
    with pytest.raises(ValueError, match=r"size full, 8 parts.*--again"):
        run(one, folder=tmp_path)
    assert read(tmp_path / "small.json").size == "full"
    assert run(one, folder=tmp_path, again=True).size == "default"


def test_a_result_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    result = Result("x", "tiny", {"n": (1, 2)}, 1, 1, {"torch": "2"}, "regard", (Part(0, {}, 1.0, ({"a": None},)),))
    result.save(file)
    good = json.loads(file.read_text())
    assert read(file).rows == [{"a": None, "seed": 0}]
    bad: list[tuple[Any, str]] = [
        ([], "one JSON object"),
        ({**good, "format": 2}, "expected format 1"),
        ({**good, "more": 1}, "expected the entries"),
        ({**good, "seeds": "1"}, "seeds of type int"),
        ({**good, "size": "huge"}, "a size among"),
        ({**good, "parts": [{}]}, "seed, part, seconds and rows"),
        ({**good, "parts": [{**good["parts"][0], "rows": [{"a": [1]}]}]}, "rows of numbers, texts"),
    ]
    for content, complaint in bad:
        file.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=complaint):
            read(file)
    file.write_text("{")
    with pytest.raises(ValueError, match="not a result file of a claim"):
        read(file)


def test_what_is_no_number_is_stored_as_none(tmp_path: Path) -> None:
    one = small_claim(lambda *_: [{"x": float("nan"), "y": torch.tensor(2)}])
    row = run(one, folder=tmp_path).rows[0]
    assert row["x"] is None
    assert row["y"] == 2
