"""Players in an exported Kaggle file: they read book or network from that file and keep a time limit."""

import random
import sys
import tempfile
from contextlib import suppress
from threading import Thread
from typing import Any

from regard.connectx.game.bitboard import Shape
from regard.connectx.game.board import Board
from regard.connectx.players.player import Budget, Player
from regard.connectx.players.search_players import MinimaxPlayer, SolverPlayer
from regard.numba_functions import numba

SOLVER_SHARE = 0.5  # share of the time for the solver; if it has not finished, alpha-beta gets the rest
OPENING = 8  # number of stones from which the solver is fast enough without a book


def embedded_file(name: str) -> bytes | None:
    """Return a data file embedded in the exported file that this module was loaded from; None if there is none."""
    return vars(sys.modules[__name__.partition(".")[0]]).get("files", {}).get(name)


def embedded_book() -> Any:
    """Return the opening book embedded in the exported file; None if there is none."""
    content = embedded_file("book")
    if content is None:
        return None
    from regard.connectx.solver.opening_book import load_book

    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return load_book(file.name)


def embedded_network(budget: Budget) -> Player:
    """Return a player with the network that is embedded in the exported file."""
    from regard.connectx.kaggle.numpy_network import NumpyNetwork
    from regard.connectx.players.network_player import NetworkPlayer

    network = NumpyNetwork(embedded_file("network") or b"")
    table = network.config.get("opening_table", ())
    return NetworkPlayer(network, *budget, search_evaluator=network.one_sided, opening_table=table)


class TimedSolverPlayer:
    """Plays perfectly on 6×7×4 as long as the solver finishes in time; else, and on other boards, by alpha-beta.

    The solver cannot be interrupted, so it runs in a thread (its machine code does not block other threads). It is not
    asked for opening positions that the book does not contain.
    """

    name = "solver"

    def __init__(self, seconds: float, shape: Shape) -> None:
        self.seconds = seconds
        self._fallback = MinimaxPlayer(None, (1 - SOLVER_SHARE) * seconds)
        self._solver: Player | None = None
        self._columns: dict[Board, int] = {}
        self._thread: Thread | None = None
        self._book_stones = 0
        if shape[:3] == (6, 7, 4) and numba is not None:
            book = embedded_book()
            self._book_stones = 0 if book is None else max(book.whole, default=0)
            self._solver = SolverPlayer(book)
            self._solver.choose(_late_board(shape))  # compiles the solver

    def choose(self, board: Board) -> int:
        """Return the column to play."""
        solvable = board.stones >= OPENING or board.stones < self._book_stones
        if self._solver is not None and board.shape[:3] == (6, 7, 4) and solvable:
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._solve, args=(board,), daemon=True)
                self._thread.start()
                self._thread.join(SOLVER_SHARE * self.seconds)
            if board in self._columns:
                return self._columns[board]
        column = self._fallback.choose(board)
        return self._columns.get(board, column)  # the solver may have finished in the meantime

    def _solve(self, board: Board) -> None:
        assert self._solver is not None
        with suppress(Exception):
            self._columns[board] = self._solver.choose(board)


def _late_board(shape: Shape) -> Board:
    """Return a board with few moves left, which the solver solves quickly."""
    board = Board(*shape[:3])
    generator = random.Random(0)
    while True:
        after = board.play(generator.choice(board.legal))
        if after.over:
            if board.stones > shape.rows * shape.columns // 2 or after.full:
                return board
            after = Board(*shape[:3])
        board = after
