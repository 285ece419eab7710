"""Vectorized environment for training: many games at once, NumPy arrays in and out."""

from typing import Any, NamedTuple

import numpy as np

from regard.connectx.game.board_batch import DRAWN, ILLEGAL, WON, Boards

Array = np.ndarray


class Step(NamedTuple):
    """Result of a step: planes and legal columns for the next move, reward of this move, whether the game ended."""

    planes: Array
    reward: Array
    done: Array
    legal: Array


class VectorEnv:
    """Games of a player against itself: a step is one move on every board, by the side whose turn it is.

    count                   number of games
    rows, columns, inarow   size of the board, and stones in a line that win
    seed                    seed of the random columns of the boards; None draws one

    The reward is for the side that moved: 1 for a win, −1 for an illegal move (which ends the game), else 0. A game
    that has ended is replaced by a new one in the same step, so the planes always belong to an unfinished game. The
    next step overwrites the arrays of a step; copy the arrays that you need later.

    >>> env = VectorEnv(2, columns=4, inarow=2)
    >>> planes, legal = env.reset()
    >>> for columns in ([0, 0], [1, 3], [0, 1]):
    ...     step = env.step(columns)
    >>> step.reward.tolist(), step.done.tolist(), env.boards.stones().tolist()
    ([1.0, 1.0], [True, True], [0, 0])
    """

    def __init__(
        self, count: int, rows: int = 6, columns: int = 7, inarow: int = 4, *, seed: int | None = None
    ) -> None:
        self.boards = Boards(count, rows, columns, inarow, seed=seed)
        self._planes = np.empty((count, 2, rows, columns), np.float32)
        self._legal = np.empty((count, columns), np.bool_)

    def reset(self) -> tuple[Array, Array]:
        """Start new games and return planes and legal columns."""
        self.boards.reset()
        return self.boards.planes(self._planes), self.boards.legal(self._legal)

    def step(self, columns: Any) -> Step:
        """Play one move on each board."""
        status = self.boards.step(columns)
        reward = (status == WON).astype(np.float32) - (status == ILLEGAL)
        done = status != 0
        self.drawn = status == DRAWN
        self.boards.reset(done)
        return Step(self.boards.planes(self._planes), reward, done, self.boards.legal(self._legal))

    def random_columns(self) -> Array:
        """Return a random legal column for each board."""
        return self.boards.random_columns()
