"""An environment for training: many games, NumPy arrays in and out, no wrapper in between."""

from typing import Any, NamedTuple

import numpy as np

from regard.connectx.game.board_batch import DRAWN, ILLEGAL, WON, Boards

Array = np.ndarray


class Step(NamedTuple):
    """What a step gives: planes for whoever moves next, reward and end for whoever moved, and the legal columns."""

    planes: Array
    reward: Array
    done: Array
    legal: Array


class VectorEnv:
    """Games of a player against itself: every step is a move on every board, by the side whose turn it is there.

    The reward is for the side that moved: 1 for a win, −1 for an illegal move (which ends the game), else 0. A game
    that has ended begins anew within the same step, so the planes are always of a running game. The arrays of a step
    are used again by the next one; copy what is to be kept.

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
        """Begin all games anew: planes and legal columns."""
        self.boards.reset()
        return self.boards.planes(self._planes), self.boards.legal(self._legal)

    def step(self, columns: Any) -> Step:
        """One move on each board."""
        status = self.boards.step(columns)
        reward = (status == WON).astype(np.float32) - (status == ILLEGAL)
        done = status != 0
        self.drawn = status == DRAWN
        self.boards.reset(done)
        return Step(self.boards.planes(self._planes), reward, done, self.boards.legal(self._legal))

    def random_columns(self) -> Array:
        """A random legal column for each board."""
        return self.boards.random_columns()
