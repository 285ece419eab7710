"""Every experiment at its tiny size: it runs, is judged and drawn."""

from pathlib import Path

import pytest

from regard.claims import NAMES, claim_named, read, run
from regard.claims.charts.panels import Plot
from regard.claims.claim import SIZES, VERDICTS_IN_CHINESE
from regard.claims.run_claim import count

FOLDER = Path(__file__).parents[2] / "regard" / "claims" / "experiments"


@pytest.mark.parametrize("name", NAMES)
def test_run_judge_and_draw(name: str, tmp_path: Path) -> None:
    claim, finished = claim_named(name), []
    result = run(claim, "tiny", folder=tmp_path, on_part=finished.append)
    assert result.complete
    assert len(finished) == count(claim, "tiny") == len(result.parts)
    assert result == read(tmp_path / f"{name}.json")
    assert {row["seed"] for row in result.rows} == set(range(result.seeds))
    conclusion = claim.judge(result.rows)
    assert conclusion.verdict in VERDICTS_IN_CHINESE
    assert all(conclusion.sentence[language].strip() for language in ("en", "zh"))
    assert conclusion.figures
    assert all(str(figure) and set(figure.name) == {"en", "zh"} for figure in conclusion.figures)
    chart = claim.draw(result.rows)
    picture = chart.save(tmp_path / "plot.svg")
    assert 2_000 < picture.stat().st_size < 300_000
    for plot in (panel for panel in chart.panels if isinstance(panel, Plot)):
        points = [point for series in plot.series for point in series.points]
        assert points
        assert all(point.x in plot.categories for point in points if plot.kind == "bars")
        assert all(point.low <= point.mean <= point.high for point in points if point.low is not None)

    run(claim, "tiny", folder=tmp_path, on_part=finished.append)
    assert finished[len(result.parts) :] == [None] * len(result.parts)  # nothing is measured twice


def test_every_experiment_is_registered_with_all_sizes() -> None:
    files = {path.stem.replace("_", "-") for path in FOLDER.rglob("*.py")} - {"--init--"}
    assert files == set(NAMES)
    for name in NAMES:
        claim = claim_named(name)
        assert claim.name == name
        assert all(claim.sizes[size]["seeds"] >= (3 if size != "tiny" else 1) for size in SIZES)
        assert claim.parts(claim.sizes["default"])
        assert set(claim.sizes["tiny"]) == set(claim.sizes["default"]) == set(claim.sizes["full"])


def test_rows_are_reproducible(tmp_path: Path) -> None:
    first, second = (run(claim_named("mask"), "tiny", folder=tmp_path / str(n)).rows for n in range(2))
    assert first == second
    assert first[0] != first[len(first) // 2]  # another seed, other numbers
