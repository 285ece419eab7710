"""What keeps an exported player within Kaggle's rules: in time, a plain int, and never an exception.

This module travels in the exported file, together with the player's own. Thinking takes less than half of what a move
may take: the rest is for machines slower than they were. Only the first call, which compiles, may take longer.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

from regard.connectx.bits import fits, from_the_centre
from regard.connectx.board import Board
from regard.connectx.compiled import numba
from regard.connectx.kaggle import board_of
from regard.connectx.players import Mcts, Minimax, Player, player, read_amount

SHARE = 0.45  # of the time that a move may take
FIRST = 8.0  # seconds that the first move waits for the compiler; on a machine that slow, Python plays on meanwhile


def agent_of(name: str) -> Callable[[Any, Any], int]:
    """The agent that plays as the player of this name would, within the rules.

    >>> act = agent_of("greedy")
    >>> act({"board": [0] * 42, "mark": 1}, {"rows": 6, "columns": 7, "inarow": 4, "actTimeout": 2})
    3
    >>> act({"board": "nonsense"}, {"columns": 7})
    0
    """
    players: list[Player] = []
    meanwhile: list[Player] = []

    def prepare(seconds: float) -> None:
        with suppress(Exception):
            players.append(in_time(name, seconds))

    compiling: list[Thread] = []

    def act(observation: Any, configuration: Any) -> int:
        with suppress(Exception):  # a bad move loses a game; an exception loses it at once
            board = board_of(observation, configuration)
            seconds = SHARE * float(configuration["actTimeout"])
            if not compiling:
                compiling.append(Thread(target=prepare, args=(seconds,), daemon=True))
                compiling[0].start()
                compiling[0].join(FIRST)
            if not players and not meanwhile:
                meanwhile.append(Minimax(None, seconds, plain=True))
            column = int((players or meanwhile)[0].choose(board))
            if column in board.legal:
                return column
        return _any_column(observation, configuration)

    return act


def in_time(name: str, seconds: float) -> Player:
    """The player of this name, that thinks no longer than this."""
    kind, _, amount = name.partition(":")
    if kind in ("minimax", "mcts"):
        number, given = read_amount(name, amount or {"minimax": "5", "mcts": "1000"}[kind], "steps")
        limit = seconds if given is None else min(seconds, given)
        return Minimax(number, limit) if kind == "minimax" else Mcts(number, limit)
    if kind == "solver":
        return PerfectInTime(seconds)
    return player(name)


class PerfectInTime:
    """The solver where it answers at once: with its book, or near the end of a game. Elsewhere alpha-beta."""

    name = "solver"

    def __init__(self, seconds: float) -> None:
        self._otherwise = in_time("minimax:60s", seconds)
        self._perfect = player("solver")

    def choose(self, board: Board) -> int:
        """The column to play."""
        empty = board.rows * board.columns - board.stones
        usual = board.shape[:3] == (6, 7, 4)
        if numba is not None and fits(board.shape) and (usual or empty <= 20):
            with suppress(Exception):  # then the next best thing
                return self._perfect.choose(board)
        return self._otherwise.choose(board)


def _any_column(observation: Any, configuration: Any) -> int:
    """A free column, near the centre, of whatever was given; 0 when that cannot be read."""
    try:
        board, columns = list(observation["board"]), int(configuration["columns"])
        return next(column for column in from_the_centre(columns) if board[column] == 0)
    except Exception:
        return 0
