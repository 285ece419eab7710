"""Exported submissions: one file that plays without regard and within Kaggle's rules, with and without numba."""

import tarfile
from pathlib import Path

import pytest

from regard.connectx import Board, export, player
from regard.connectx.kaggle.submission_runtime import timed_agent
from regard.connectx.kaggle.write_submission import SUBMISSION, needed, source
from support.submissions import BOARDS, answers


@pytest.mark.parametrize("numba", ["with", "without"])
@pytest.mark.parametrize("name", ["greedy", "minimax:4", "mcts:150"])
def test_the_exported_file_plays_without_regard(name: str, numba: str, tmp_path: Path) -> None:
    file = export(name, tmp_path / "submission.py")
    assert file.stat().st_size < 100_000
    found = answers(file, numba, BOARDS, tmp_path)
    assert found[1:4] == [3, 0, 0]
    if name == "minimax:4":
        seated = player(name)
        assert found == [seated.choose(board) for board in BOARDS]  # the same player, wherever it runs


def test_a_game_may_end_during_compilation(tmp_path: Path) -> None:
    file = export("mcts:150", tmp_path / "submission.py")
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("FIRST_MOVE = 8.0", "FIRST_MOVE = 0.0"), encoding="utf-8")  # as on a very slow machine
    assert text.count("FIRST_MOVE = 8.0") == 1
    assert answers(file, "with", BOARDS[1:2], tmp_path) == [3]


def test_random_and_archives(tmp_path: Path) -> None:
    archive = export("random", tmp_path / "submission.tar.gz")
    again = export("random", tmp_path / "again.tar.gz")
    assert archive.read_bytes() == again.read_bytes()
    with tarfile.open(archive) as tar:
        assert tar.getnames() == ["main.py"]
        tar.extractall(tmp_path, filter="data")
    found = answers(tmp_path / "main.py", "without", [Board()] * 30, tmp_path)
    assert len(set(found)) > 3
    assert player(str(archive)).choose(Board()) in range(7)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.tar.gz", "main.py", "submission.tar.gz"]


def test_never_raises() -> None:
    act = timed_agent("minimax:3")
    usual = {"rows": 6, "columns": 7, "inarow": 4, "actTimeout": 2}
    full = Board.from_moves("444444").kaggle()
    for observation, configuration in (
        ({}, {}),
        ({"board": None, "mark": 1}, usual),
        ({"board": [0] * 41, "mark": 1}, usual),
        ({"board": full, "mark": 2}, usual),  # not player 2's turn
        ({"board": [1] * 42, "mark": 1}, usual),
    ):
        column = act(observation, configuration)
        assert type(column) is int
        if observation.get("board") == full:
            assert column != 3


def test_only_necessary_modules_are_exported() -> None:
    text = source("greedy")
    assert "SOURCES['connectx.game.bitboard']" in text
    assert "SOURCES['connectx.search.mcts_random_rollouts']" not in text
    assert "import torch" not in text
    assert "regard." not in text.split('"""', 2)[2]
    order = needed([SUBMISSION])
    steps = ["numba_functions", "connectx.game.bitboard", "connectx.game.board", SUBMISSION]
    assert sorted(steps, key=order.index) == steps


@pytest.mark.parametrize(
    ("name", "out", "message"),
    [
        ("minimax:5", "submission.zip", "must end in .py or .tar.gz, got 'submission.zip'"),
        ("minimx:5", "submission.py", "did you mean 'minimax:5'?"),
        ("minimax:x", "submission.py", "a number of plies"),
        ("network:nowhere", "submission.py", "contains no network"),
    ],
)
def test_players_that_cannot_be_exported_are_rejected(name: str, out: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        export(name, tmp_path / out)
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_slow_compilation_does_not_delay_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.connectx.kaggle import submission_runtime as submission

    monkeypatch.setattr(submission, "FIRST_MOVE", 0.0)
    act = timed_agent("minimax:60s")
    board = Board.from_moves("112233")
    configuration = {"rows": 6, "columns": 7, "inarow": 4, "actTimeout": 0.1}
    assert act({"board": board.kaggle(), "mark": 1}, configuration) == 3
