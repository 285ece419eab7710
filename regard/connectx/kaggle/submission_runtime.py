"""Agent of an exported file: as Kaggle requires, it answers in time with a plain int and raises no exception.

This module is part of the exported file, together with those of the player. A move takes less than half of the time
that Kaggle allows; the rest is a reserve for slower machines. Only the first call, which compiles, may take longer.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

from regard.connectx.game.bitboard import Shape, centre_first
from regard.connectx.kaggle.agent import read_board
from regard.connectx.players.player import Player
from regard.connectx.players.registry import exported_player
from regard.connectx.players.search_players import MinimaxPlayer

TIME_SHARE = 0.4  # share of the time that Kaggle allows for a move
FIRST_MOVE = 8.0  # seconds that the first move waits for the compiler; until it is done, alpha-beta in Python plays


def timed_agent(name: str) -> Callable[[Any, Any], int]:
    """Return an agent for Kaggle that plays like the player of this name and keeps Kaggle's time limit.

    >>> act = timed_agent("greedy")
    >>> act({"board": [0] * 42, "mark": 1}, {"rows": 6, "columns": 7, "inarow": 4, "actTimeout": 2})
    3
    >>> act({"board": "nonsense"}, {"columns": 7})
    0
    """
    players: list[Player] = []
    fallbacks: list[Player] = []
    threads: list[Thread] = []

    def prepare(seconds: float, shape: Shape) -> None:
        with suppress(Exception):
            players.append(exported_player(name, seconds, shape))

    def act(observation: Any, configuration: Any) -> int:
        with suppress(Exception):  # an exception would lose the game at once
            board = read_board(observation, configuration)
            seconds = TIME_SHARE * float(configuration["actTimeout"])
            if not threads:  # not a daemon thread: Python waits for the compiler, which cannot be interrupted
                threads.append(Thread(target=prepare, args=(seconds, board.shape)))
                threads[0].start()
                threads[0].join(FIRST_MOVE)
            if not players and not fallbacks:
                fallbacks.append(MinimaxPlayer(None, seconds, plain=True))
            column = int((players or fallbacks)[0].choose(board))
            if column in board.legal:
                return column
        return _any_column(observation, configuration)

    return act


def _any_column(observation: Any, configuration: Any) -> int:
    """Return a free column near the centre; 0 if the observation cannot be read."""
    try:
        board, columns = list(observation["board"]), int(configuration["columns"])
        return next(column for column in centre_first(columns) if board[column] == 0)
    except Exception:
        return 0
