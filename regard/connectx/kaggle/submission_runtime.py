"""Agent of an exported file: as Kaggle requires, it answers in time with a plain int and raises no exception.

This module is part of the exported file, together with those of the player. The player runs in a thread, because
neither its compilation nor a solver can be interrupted. A search for a time takes less than half of the time that
Kaggle allows. A move that takes longer, such as the first one, which compiles, uses the extra time of the game
(`remainingOverageTime`, 60 s). The agent waits for it without running Python code, which would slow down the compiler.
Only if three quarters of the remaining extra time are not enough, a search of a few milliseconds plays the move. Such
moves are reported on stderr, which Kaggle shows in the agent's logs and `regard connectx validate` counts.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from regard.connectx.game.bitboard import Shape, centre_first
from regard.connectx.game.board import Board
from regard.connectx.kaggle.agent import read_board
from regard.connectx.players.player import Player
from regard.connectx.players.registry import exported_player
from regard.connectx.players.search_players import MinimaxPlayer

SEARCH_SHARE = 0.4  # share of a move's time that a search for a time takes
WAIT_SHARE = 0.7  # share of a move's time after which the extra time is used
EXTRA_SHARE = 0.75  # share of the remaining extra time that one move may use
EXTRA_TIME = 60.0  # Kaggle's extra time, if the observation does not state it
FALLBACK_DEPTH = 3  # plies; uncompiled, this takes milliseconds
FALLBACK_NOTICE = "regard: played by the fallback"  # kaggle/validation_worker.py counts lines that begin with this


def timed_agent(name: str) -> Callable[[Any, Any], int]:
    """Return an agent for Kaggle that plays like the player of this name and keeps Kaggle's time limit.

    >>> act = timed_agent("greedy")
    >>> act({"board": [0] * 42, "mark": 1}, {"rows": 6, "columns": 7, "inarow": 4, "actTimeout": 2})
    3
    >>> act({"board": "nonsense"}, {"columns": 7})
    0
    """
    moves = _PlayerThread(name)

    def act(observation: Any, configuration: Any) -> int:
        with suppress(Exception):  # an exception would lose the game at once
            board = read_board(observation, configuration)
            seconds = float(configuration["actTimeout"])
            wait = WAIT_SHARE * seconds + EXTRA_SHARE * max(0.0, _extra_time(observation))
            column = moves.column(board, SEARCH_SHARE * seconds, wait)
            if column not in board.legal:
                sys.stderr.write(f"{FALLBACK_NOTICE} with {board.stones} stones: {moves.problem(wait)}\n")
                column = MinimaxPlayer(FALLBACK_DEPTH, plain=True).choose(board)
            return int(column)
        return _any_column(observation, configuration)

    return act


class _PlayerThread:
    """Runs the player in a thread: a late answer does not delay the agent, and the next move uses what it compiled."""

    def __init__(self, name: str) -> None:
        self.name, self.error = name, ""
        self._players: dict[Shape, Player] = {}
        self._columns: dict[Board, int] = {}
        self._board: Board | None = None  # the latest board
        self._lock = Lock()  # one thread at a time runs the player

    def column(self, board: Board, seconds: float, wait: float) -> int:
        """Return the player's column; −1 if it has no answer after `wait` seconds. It may search for `seconds`."""
        self.error, self._board = "", board
        # Not a daemon thread: Python must not exit while the compiler runs, which cannot be interrupted.
        thread = Thread(target=self._answer, args=(board, seconds))
        thread.start()
        thread.join(wait)
        return self._columns.pop(board, -1)

    def problem(self, wait: float) -> str:
        """Return why there is no answer."""
        return self.error or f"the player had no answer after {wait:.1f} s"

    def _answer(self, board: Board, seconds: float) -> None:
        with self._lock:
            if board is not self._board:
                return  # the game went on in the meantime
            try:
                if board.shape not in self._players:
                    self._players[board.shape] = exported_player(self.name, seconds, board.shape)
                self._columns[board] = self._players[board.shape].choose(board)
            except Exception as error:
                self.error = f"{type(error).__name__}: {error}"


def _extra_time(observation: Any) -> float:
    """Return the remaining extra time of the game in seconds."""
    if isinstance(observation, Mapping):
        return float(observation.get("remainingOverageTime", EXTRA_TIME))
    return float(getattr(observation, "remainingOverageTime", EXTRA_TIME))


def _any_column(observation: Any, configuration: Any) -> int:
    """Return a free column near the centre; 0 if the observation cannot be read."""
    try:
        board, columns = list(observation["board"]), int(configuration["columns"])
        return next(column for column in centre_first(columns) if board[column] == 0)
    except Exception:
        return 0
