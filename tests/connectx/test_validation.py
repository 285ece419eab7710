"""Submissions in kaggle-environments. The package is large (it brings jax, OpenSpiel and a web server), so it is an
extra, and where it is missing these tests say loudly what was not tested."""

import importlib.util
from pathlib import Path

import pytest

from regard.connectx import export
from regard.connectx.kaggle import validation
from regard.connectx.kaggle.validation import plan, validate

missing = importlib.util.find_spec("kaggle_environments") is None
needs_kaggle = pytest.mark.skipif(
    missing, reason="NOT TESTED: submissions in kaggle-environments (pip install 'regard[kaggle]' to test them)"
)
FEW = [("itself", 1, (6, 7, 4)), ("random", 2, (5, 6, 3)), ("negamax", 1, (5, 6, 3))]


@needs_kaggle
def test_a_good_submission(tmp_path: Path) -> None:
    file = export("minimax:3", tmp_path / "submission.tar.gz")
    matches = list(validate(file, FEW))
    assert [match.status for match in matches] == ["DONE"] * 3
    assert [match.their_status for match in matches] == ["DONE"] * 3
    assert all(match.valid and match.result in ("won", "drawn", "lost") for match in matches)
    assert matches[1].result == "won"
    assert all(match.moves >= 5 and match.bank > 45 for match in matches)
    assert all(0 < match.slowest_later < 2 for match in matches)


@needs_kaggle
def test_moves_of_an_exported_solver_are_graded(tmp_path: Path) -> None:
    file = tmp_path / "main.py"
    body = (
        "import sys; sys.stderr.write('regard: played by the fallback with 0 stones\\n'); return observation.step % 7"
    )
    file.write_text(f"PLAYER = 'solver'\ndef agent(observation, configuration):\n    {body}\n")
    match, small = validate(file, [("random", 1, (6, 7, 4)), ("random", 1, (5, 6, 3))])
    assert match.errors is not None
    assert match.errors >= 1  # the first stone must be in the middle
    assert match.fallback == (match.moves + 1) // 2
    assert small.errors is None


BAD = {
    "raise RuntimeError('not today')": ("ERROR", "RuntimeError: not today"),
    "import numpy; return numpy.int64(3)": ("INVALID", "plain int"),
    "return 3": ("INVALID", "not full"),
    "return 3.0": ("ERROR", "not float"),
    "import os; os._exit(1)": ("ERROR", "ended its process"),
}


@needs_kaggle
def test_bad_submissions(tmp_path: Path) -> None:
    for body, (status, reason) in BAD.items():
        file = tmp_path / "main.py"
        file.write_text(f"def agent(observation, configuration):\n    {body}\n")
        (match,) = validate(file, [("itself", 1, (6, 7, 4))])
        assert (match.status, match.valid) == (status, False), body
        assert reason in match.problem, body


@needs_kaggle
def test_a_submission_that_hangs_fails(tmp_path: Path) -> None:
    file = tmp_path / "main.py"
    file.write_text("def agent(observation, configuration):\n    while True: pass\n")
    (match,) = validate(file, [("random", 2, (6, 7, 4))], act=0.2, bank=0.3)
    assert (match.status, match.problem) == ("TIMEOUT", "no answer in time")


def test_the_plan_has_every_opponent_side_and_board() -> None:
    episodes = plan()
    assert {size for _, _, size in episodes} == {(6, 7, 4), (5, 6, 3)}
    assert {(opponent, side) for opponent, side, _ in episodes} == {
        ("itself", 1), ("random", 1), ("random", 2), ("negamax", 1), ("negamax", 2)
    }  # fmt: skip
    assert len(plan(games=3)) == 3 * len(episodes)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        list(validate(tmp_path / "nothing.py"))
    bad = tmp_path / "x.tar.gz"
    bad.write_bytes(b"not an archive")
    with pytest.raises(ValueError, match=r"is not a \.tar\.gz, or is damaged"):
        list(validate(bad))
    assert validation.SIZES[0] == (6, 7, 4)
