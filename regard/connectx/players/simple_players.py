"""Players without search: random and greedy."""

import random

from regard.connectx.game.bitboard import centre_most, completing_squares, playable_squares
from regard.connectx.game.board import Board
from regard.numba_functions import uncompiled

_completing_squares, _playable_squares = uncompiled(completing_squares), uncompiled(playable_squares)


class RandomPlayer:
    """Plays any legal column with equal probability."""

    def __init__(self, seed: int | None = None) -> None:
        self.name = "random"
        self._random = random.Random(seed)

    def choose(self, board: Board) -> int:
        """Return a random legal column."""
        return self._random.choice(board.legal)

    def policy(self, board: Board) -> list[float]:
        """Return the probability of each column, so that move quality is computed exactly instead of sampled."""
        legal = board.legal
        return [1 / len(legal) if column in legal else 0.0 for column in range(board.columns)]


class GreedyPlayer:
    """Completes a line, else blocks one, else plays the column nearest to the centre."""

    name = "greedy"

    def choose(self, board: Board) -> int:
        """Return the column to play."""
        moves = _playable_squares(board.mask, board.shape)
        wins = _completing_squares(board.position, board.shape) & moves
        blocks = _completing_squares(board.position ^ board.mask, board.shape) & moves
        return centre_most(wins or blocks or moves, board.shape)
