"""Players that search: alpha-beta, Monte Carlo tree search, and the perfect solver."""

import random
from typing import TYPE_CHECKING, Any

from regard.connectx.game.bitboard import Shape, centre_most, sensible_moves
from regard.connectx.game.board import Board
from regard.connectx.search.alpha_beta import AlphaBeta
from regard.connectx.search.time_budget import no_garbage_collection
from regard.numba_functions import uncompiled

if TYPE_CHECKING:
    from regard.connectx.search.mcts_random_rollouts import Mcts
    from regard.connectx.solver.perfect_solver import Solver

_sensible_moves = uncompiled(sensible_moves)


class MinimaxPlayer:
    """Alpha-beta search to a depth, for a time, or both; with `plain` as uncompiled Python, which is slower."""

    def __init__(self, depth: int | None, seconds: float | None = None, *, plain: bool = False) -> None:
        self.name = "minimax"
        self.depth, self.seconds, self.plain = depth, seconds, plain
        self._searches: dict[Shape, AlphaBeta] = {}
        self._search(Board().shape).run(0, 0, depth=1)  # compiles the search before the time of a move counts

    def _search(self, shape: Shape) -> AlphaBeta:
        if shape not in self._searches:
            self._searches[shape] = AlphaBeta(shape, plain=self.plain)
        return self._searches[shape]

    def choose(self, board: Board) -> int:
        """Return the column to play."""
        moves = _sensible_moves(board.position, board.mask, board.shape)
        if moves & (moves - 1) == 0:
            return centre_most(moves, board.shape)  # a win, or the only move that does not lose at once
        with no_garbage_collection():
            result = self._search(board.shape).run(
                board.position, board.mask, depth=self.depth, seconds=self.seconds, moves=moves
            )
        return result.column


class MctsPlayer:
    """Monte Carlo tree search with random play-outs; the tree is reused from move to move."""

    def __init__(self, simulations: int | None, seconds: float | None = None, seed: int | None = None) -> None:
        self.name = "mcts"
        self.simulations, self.seconds = simulations, seconds
        self._random = random.Random(seed)
        self._searches: dict[Shape, Mcts] = {}
        search = self._search(Board().shape)
        search.run(0, 0, simulations=2)
        search.run(3, 3, simulations=2)  # a second position, because that compiles the code that clears the tree

    def _search(self, shape: Shape) -> "Mcts":
        from regard.connectx.search.mcts_random_rollouts import Mcts

        if shape not in self._searches:
            # A play-out adds at most one node; nodes reused from the last search come on top.
            nodes = 1 << 18 if self.simulations is None else min(1 << 18, 2 * self.simulations + 64)
            self._searches[shape] = Mcts(shape, seed=self._random.getrandbits(48), nodes=nodes)
        return self._searches[shape]

    def choose(self, board: Board) -> int:
        """Return the column to play."""
        moves = _sensible_moves(board.position, board.mask, board.shape)
        if moves & (moves - 1) == 0:
            return centre_most(moves, board.shape)
        search = self._search(board.shape)
        with no_garbage_collection():
            search.run(board.position, board.mask, simulations=self.simulations, seconds=self.seconds)
            return search.best()


class SolverPlayer:
    """Plays perfectly; of several best columns the one nearest to the centre."""

    name = "solver"

    def __init__(self, book: Any = "shipped") -> None:
        self.book = book
        self._solvers: dict[Shape, Solver] = {}

    def choose(self, board: Board) -> int:
        """Return the column to play."""
        from regard.connectx.solver.perfect_solver import Solver

        if board.shape not in self._solvers:
            self._solvers[board.shape] = Solver(board.rows, board.columns, board.inarow, book=self.book)
        return self._solvers[board.shape].best(board)
