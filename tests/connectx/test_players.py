"""Players by name, agents from files, and Kaggle's interface."""

import pickle
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from regard.connectx import AgentFile, Board, Player, PlayerError, agent, play_game, player
from regard.connectx.players.recipe import Players, share_player
from regard.connectx.players.simple_players import GreedyPlayer, RandomPlayer
from regard.parallel import LocalEngine


@pytest.mark.parametrize("name", ["random", "greedy", "minimax:3", "minimax:5ms", "mcts:20", "mcts:5ms", "minimax"])
@pytest.mark.parametrize("size", [(6, 7, 4), (4, 5, 3), (9, 9, 5)])
def test_every_player_plays_legal_moves(name: str, size: tuple[int, int, int]) -> None:
    seated = player(name, seed=1)
    assert isinstance(seated, Player)
    assert seated.name == name
    game = play_game(seated, player("random", seed=2), Board(*size))
    assert game.status == "DONE", game.reason
    board = Board.from_moves(game.moves, *size)
    assert board.over
    assert board.winner == game.winner


@pytest.mark.parametrize("name", ["greedy", "minimax:2", "mcts:60", "minimax:20ms", "mcts:20ms"])
def test_wins_in_one_and_blocks(name: str) -> None:
    seated = player(name, seed=0)
    assert seated.choose(Board.from_moves("112233")) == 3
    assert seated.choose(Board.from_moves("12131")) == 0


def test_stronger_players_win() -> None:
    points = 0.0
    for number in range(5):
        weak, strong = player("random", seed=number), player("minimax:4")
        points += play_game(weak, strong).points("minimax:4") + play_game(strong, weak).points("minimax:4")
    assert points >= 9


def test_a_seed_repeats_a_game() -> None:
    names = ("random", "mcts:40")
    games = [play_game(*(player(name, seed=5) for name in names)).moves for _ in range(2)]
    assert games[0] == games[1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("minmax:5", "did you mean 'minimax:5'?"),
        ("mtcs", "did you mean 'mcts'?"),
        ("alphazero", "Players are random, greedy"),
        ("minimax:deep", "a number of plies or a time, such as 1000, 100ms or 2s"),
        ("mcts:1.5", "a number of play-outs or a time"),
        ("mcts:0", "must be greater than 0, got 'mcts:0'"),
        ("random:3", "'random' takes nothing after a colon"),
        ("network:nowhere", "contains no network"),
        ("nowhere/main.py", "the agent file 'nowhere/main.py' does not exist"),
    ],
)
def test_invalid_names_are_rejected(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        player(name)
    assert message in str(error.value)


def test_agents_answer_observations_of_kaggle() -> None:
    act = agent("greedy")
    board = Board.from_moves("112233")
    observation = {"board": board.kaggle(), "mark": 1, "step": 6, "remainingOverageTime": 60}
    column = act(observation, {"rows": 6, "columns": 7, "inarow": 4})
    assert (column, type(column)) == (3, int)

    class Struct(dict):  # type: ignore[type-arg]
        __getattr__ = dict.__getitem__

    assert act(Struct(observation), Struct(rows=6, columns=7, inarow=4)) == 3
    with pytest.raises(ValueError, match="player 1's turn, but the mark is 2"):
        act(observation | {"mark": 2}, {"rows": 6, "columns": 7, "inarow": 4})
    small = Board.from_moves("1212", 4, 5, 3)
    assert agent(GreedyPlayer())({"board": small.kaggle(), "mark": 1}, {"rows": 4, "columns": 5, "inarow": 3}) == 0


GOOD = """
import numpy as np
def helper(x): return x
def my_agent(observation, configuration):
    print("said aloud")
    free = [c for c in range(configuration.columns) if observation.board[c] == 0]
    return free[len(free) // 2]
"""


def written(folder: Path, text: str) -> str:
    path = folder / "main.py"
    path.write_text(text)
    return str(path)


def test_an_agent_from_a_file(tmp_path: Path) -> None:
    seated = player(written(tmp_path, GOOD))
    game = play_game(seated, RandomPlayer(0))
    assert game.status == "DONE", game.reason
    again = play_game(RandomPlayer(1), seated, Board(4, 5, 3))
    assert again.status == "DONE", again.reason
    with tarfile.open(tmp_path / "submission.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "main.py", "main.py")
    packed = player(str(tmp_path / "submission.tar.gz"))
    assert packed.choose(Board()) == 3


BAD = {
    "raise RuntimeError('not today')": ("ERROR", "RuntimeError: not today"),
    "import os; os._exit(1)": ("ERROR", "has ended"),
    "while True: pass": ("TIMEOUT", "no answer within"),
    "import numpy; return numpy.int64(3)": ("INVALID", "got int64: 3"),
    "return 'left'": ("INVALID", "got str: left"),
    "return True": ("INVALID", "got bool"),
    "return 3.0": ("ERROR", "got a float"),
    "return 7": ("INVALID", "column 7 is not legal"),
    "return -1": ("INVALID", "column -1 is not legal"),
}


@pytest.mark.parametrize("body", BAD)
def test_a_failing_agent_loses_as_on_kaggle_and_can_play_again(body: str, tmp_path: Path) -> None:
    status, reason = BAD[body]
    file = written(tmp_path, f"def agent(observation, configuration):\n    {body}\n")
    seated = AgentFile(file, act=0.3, bank=0.3 if status == "TIMEOUT" else 60)
    for _ in range(2):
        game = play_game(seated, RandomPlayer(0))
        assert (game.winner, game.status) == (2, status)
        assert reason in game.reason
    game = play_game(RandomPlayer(0), seated)
    assert (game.winner, game.status) == (1, status)
    seated.close()


def test_slow_moves_use_the_extra_time(tmp_path: Path) -> None:
    slow = "import time\ndef agent(observation, configuration):\n    time.sleep(0.25)\n    return 0\n"
    seated = AgentFile(written(tmp_path, slow), act=0.05, bank=5.0)
    assert seated.choose(Board()) == 0  # starting the process draws on it, too
    assert seated._left < 4.81
    left = seated._left
    seated.choose(Board.from_moves("12"))
    assert seated._left < left - 0.19
    seated.choose(Board())
    assert seated._left > left - 0.7  # a new game, a new bank
    nothing = AgentFile(written(tmp_path, "def agent(observation):\n    return None\n"))
    assert nothing.choose(Board()) == 0  # as Kaggle has it
    empty = AgentFile(written(tmp_path, "x = 3\n"))
    with pytest.raises(PlayerError, match="ERROR: ValueError: the file must define a function, got none"):
        empty.choose(Board())
    for one in (seated, nothing, empty):
        one.close()


def test_an_open_agent_process_ends_silently_with_the_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "regard", "connectx", "arena", written(tmp_path, GOOD), "random", "--games", "2"]
    command += ["--openings", "none", "--processes", "1", "--size", "4x5x3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Exception" not in done.stderr


def test_a_player_that_raises_or_plays_illegally_loses() -> None:
    class Raises:
        name = "raises"

        def choose(self, board: Board) -> int:
            raise KeyError("gone")

    class Cheats:
        name = "cheats"

        def choose(self, board: Board) -> int:
            return 99

    assert play_game(Raises(), RandomPlayer(0)).status == "ERROR"
    game = play_game(RandomPlayer(0), Cheats())
    assert (game.winner, game.status) == (1, "INVALID")


def test_players_travel_with_their_files(tmp_path: Path) -> None:
    class Elsewhere(LocalEngine):
        same_files = False

    file = tmp_path / "main.py"
    file.write_text("def agent(observation, configuration): return 2\n")
    names = ("network:4", str(file), "greedy")
    board = Board.from_moves("445")
    with Elsewhere(2) as engine:
        handles = {name: share_player(name, engine) for name in names}
        file.unlink()
        players = Players(pickle.loads(pickle.dumps(handles)))
        assert [players(name, 0).name for name in names] == list(names)
        assert players(names[0], 0).choose(board) == player("network:4").choose(board)
        assert players(names[1], 0).choose(board) == 2
