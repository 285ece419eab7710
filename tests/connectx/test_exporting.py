"""Exported submissions: one file that plays without regard and within Kaggle's rules, with and without numba."""

import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from regard.connectx import Board, Player, export, player
from regard.connectx.kaggle import submission_runtime
from regard.connectx.kaggle.submission_runtime import FALLBACK_NOTICE, timed_agent
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
    for constant in ("WAIT_SHARE = 0.7", "EXTRA_SHARE = 0.75"):  # as on a very slow machine
        assert text.count(constant) == 1
        text = text.replace(constant, constant.split()[0] + " = 0.0")
    file.write_text(text, encoding="utf-8")
    assert answers(file, "with", BOARDS[1:2], tmp_path, FALLBACK_NOTICE) == [3]


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


class SlowPlayer:
    """Takes some time for its first move, as a player that is compiled does."""

    name = "slow"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def choose(self, board: Board) -> int:
        time.sleep(self.seconds)
        self.seconds = 0.0
        return 6


def test_moves_use_the_extra_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(submission_runtime, "exported_player", lambda name, seconds, shape: SlowPlayer(0.5))
    board = Board.from_moves("112233")
    observation = {"board": board.kaggle(), "mark": 1, "remainingOverageTime": 60.0}
    configuration = {"rows": 6, "columns": 7, "inarow": 4, "actTimeout": 0.01}
    assert timed_agent("slow")(observation, configuration) == 6
    assert capsys.readouterr().err == ""
    act = timed_agent("slow")
    assert act(observation | {"remainingOverageTime": 0.1}, configuration) == 3  # the fallback wins at once
    assert capsys.readouterr().err.startswith(f"{FALLBACK_NOTICE} with 6 stones: the player had no answer after 0.1 s")
    later = Board.from_moves("11223365")
    assert act(observation | {"board": later.kaggle()}, configuration) == 6  # the player is ready now
    assert capsys.readouterr().err == ""


def test_a_failing_player_is_replaced_and_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(name: str, seconds: float, shape: object) -> Player:
        raise OSError("no memory")

    monkeypatch.setattr(submission_runtime, "exported_player", fail)
    board = Board.from_moves("112233")
    configuration = {"rows": 6, "columns": 7, "inarow": 4, "actTimeout": 2}
    assert timed_agent("slow")({"board": board.kaggle(), "mark": 1}, configuration) == 3
    assert "OSError: no memory" in capsys.readouterr().err


def test_an_exported_network_plays_its_own_moves(tmp_path: Path) -> None:
    file = export("network", tmp_path / "submission.py")
    boards = [Board(), Board.from_moves("44")]
    assert answers(file, "with", boards, tmp_path) == [player("network").choose(board) for board in boards]


def test_the_embedded_book_can_be_read_again(tmp_path: Path) -> None:
    """kaggle-environments loads a submission again in the same process, for every game and for both sides."""
    file = export("solver", tmp_path / "submission.py")
    script = """
import importlib, sys
names = {}
exec(open(sys.argv[1], encoding="utf-8").read(), names)
names["_start"]()
players = importlib.import_module(names["PACKAGE"] + ".connectx.players.exported_players")
print([len(players.embedded_book().layers) for _ in range(2)])
"""
    result = subprocess.run([sys.executable, "-I", "-c", script, file], capture_output=True, text=True, check=True)
    assert result.stdout == "[5, 5]\n"
