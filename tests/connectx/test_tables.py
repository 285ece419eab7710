"""Tables of the connectx commands: nothing is cut off on a terminal of 80 columns."""

import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from regard.connectx.arena import report
from regard.connectx.arena.move_quality import SET_NAMES, Grades
from regard.connectx.kaggle.validation import Match
from regard.connectx.training.compare import Comparison

LONG, OTHER = "network:without-table:200", "small,attn_every=none/learning_rate=1e-3"
PLAYER: dict[str, Any] = {
    "elo": -1208.0, "elo_margin": 365.0, "games": 1000, "wins": 333, "draws": 333, "losses": 334, "score": 0.8888,
    "score_low": 0.86, "score_high": 0.93, "failed": {"TIMEOUT": 3}, "slowest_move": 12.3,
}  # fmt: skip
MATCH = Match("negamax", 2, (6, 7, 4), "DONE", 0, "DONE", 42, 17.06, 1.863, 44.9, "", 21, 10)


def lines(table: Any) -> str:
    console = Console(width=80, force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_validations_fit() -> None:
    problem = "the agent must return a plain int, the number of a column that is not full"
    bad = replace(MATCH, opponent="itself", side=1, status="TIMEOUT", reward=None, problem=problem, errors=None)
    text = lines(report.validation_table("submission.py", [MATCH, bad]))
    for word in ("6×7×4 negamax second drawn 42 21 10 17.1 s 1.86 s 45 s", "6×7×4 itself first TIMEOUT 42 21 – 17.1 s"):
        assert word in re.sub(" +", " ", text)
    assert "against itself as first: the agent must return a plain int, the number" in re.sub(r"\s+", " ", text)


def test_other_tables_fit() -> None:
    settings = {"size": (6, 7, 4), "openings": "balanced"}
    arena = {
        "settings": settings,
        "players": [PLAYER | {"name": LONG}, PLAYER | {"name": "solver"}],
        "pairings": [PLAYER | {"first": LONG, "second": "solver", "decided": "better"}],
    }
    row = {"error": 0.0123, "error_begin": 0.0123, "error_middle": 0.1111, "error_end": 0.0001, "perfect": 1.0}
    rows = [row | {"parameters": 1273411, "positions": 9900000}]
    results = {
        "method": "distill",
        "seeds": 3,
        "configurations": ["small", OTHER],
        "grades": {"small": rows, OTHER: rows},
    }
    grades = Grades(100, 0, 0)
    tables = {
        "−1208 365 1000 333 333 334 88.9 % 86–93 12300 ms": report.players_table(arena),
        "333 333 334 88.9 % 86–93": report.pairings_table(arena),
        "100.0 100.0 100.0 100.0 100.0 100.0": report.sets_table({LONG: dict.fromkeys(SET_NAMES, grades)}),
        "4200 0 / 0 0 / 0": report.quality_table({LONG: dict.fromkeys(range(42), grades)}),
        "1,273,411 9,900,000 1.23 1.23 11.11 0.01 100.0": Comparison(results).table(),
    }
    for numbers, table in tables.items():
        text = lines(table)
        assert numbers in re.sub(" +", " ", text), text
        assert "…" not in text
        assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize("name", ["small", OTHER])
def test_names_of_configurations_are_legible(name: str) -> None:
    row = {"error": 0.0, "error_begin": 0.0, "error_middle": 0.0, "error_end": 0.0, "perfect": 1.0}
    rows = [row | {"parameters": 1273411, "positions": 9900000}]
    text = lines(Comparison({"method": "ppo", "seeds": 1, "configurations": [name], "grades": {name: rows}}).table())
    parts = re.findall(r"^ (\S+)", text, re.MULTILINE)  # the words of the first column
    assert name in "".join(parts[2:])
