"""Perfect solver: the exact score of any position and of every move, and the best line.

A score counts for the side to move. A win scores 1 plus the number of stones that the winner has left after the winning
one, so a sooner win scores more. On 6×7, where each side has 21 stones, a win with one's n-th stone scores 22 − n. A
loss is the same with a minus, a draw scores 0. (On a board with an odd number of cells the first player has one stone
more.)
"""

from collections.abc import Callable, Iterable
from copy import copy
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from regard.connectx.game.bitboard import board_shape, centre_first, has_line, mirror, playable_squares
from regard.connectx.game.board import Board
from regard.connectx.solver.negamax import IS_OVER, MIN_TABLE_BITS, NO_GUESS, SMALL_TABLE_BITS, compiled_search
from regard.connectx.solver.opening_book import Book, load_book
from regard.connectx.solver.position_index import index_tables
from regard.cpu_count import available_cores
from regard.numba_functions import announce_compilation, uncompiled

Scores = list[int | None]

_has_line, _playable_squares = uncompiled(has_line), uncompiled(playable_squares)


class Solver:
    """Solves positions on boards of one size.

    rows, columns, inarow   size of the boards, and stones in a line that win
    book                    "shipped" (the opening book that comes with regard, for 6×7×4), None, a `Book`, or the path
                            of a book that `regard connectx book` wrote
    table_bits              the table of results has 2^table_bits entries of 16 bytes (by default 128 MB)

    The solver keeps a table of its results, so the next position of the same game is solved sooner.

    >>> from regard.connectx import Board, Solver
    >>> solver = Solver(4, 4, 3, table_bits=16)
    >>> board = Board.from_moves("23", 4, 4, 3)
    >>> solver.scores(board)
    [-5, 4, 3, -2]
    >>> solver.best(board), solver.outcome(board), solver.line(board)
    (1, 'win in 4', [1, 1, 2, 1, 2, 2, 0])
    """

    def __init__(
        self, rows: int = 6, columns: int = 7, inarow: int = 4, *, book: Book | str | Path | None = "shipped",
        table_bits: int = 23,
    ) -> None:  # fmt: skip
        for name, value, least in (("rows", rows, 1), ("columns", columns, 1), ("inarow", inarow, 2)):
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
        key_bits = (rows + 1) * columns
        if key_bits > 64 or rows > 61:
            raise ValueError(
                f"the solver needs (rows + 1) × columns of at most 64, got {rows}×{columns} ({key_bits}); "
                "use a smaller board, or a player that searches (minimax, mcts)"
            )
        if not MIN_TABLE_BITS <= table_bits <= 30:
            raise ValueError(f"table_bits must be between {MIN_TABLE_BITS} and 30 (16 GB), got {table_bits}")
        self.rows, self.columns, self.inarow = rows, columns, inarow
        self._shape = board_shape(rows, columns, inarow)
        self._cells = rows * columns
        self._key_bits = key_bits
        self._table_bits = min(table_bits, key_bits - 1)
        self._search = compiled_search(rows, columns, inarow)
        self._table = np.zeros(2 << self._table_bits, dtype=np.uint64)
        self._table.fill(0)  # touch the memory now, so that the first positions are not slowed down by page faults
        self._counters = np.zeros(1, dtype=np.int64)
        self._book = self._load(book)
        constants = (_centre_weights(rows, columns), *_flatten(self._book), *index_tables(rows, columns))
        self._arrays = (self._table, *self._work_arrays(), *constants, self._counters)
        self._ready = False
        self._is_draw = inarow > max(rows, columns)  # no line fits on the board

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle size and book: another process makes a table of its own."""
        return _new_solver, (self.rows, self.columns, self.inarow, self._book, self._table_bits)

    def _load(self, book: Book | str | Path | None) -> Book | None:
        size = (self.rows, self.columns, self.inarow)
        if isinstance(book, str) and book == "shipped":
            return load_book() if size == (6, 7, 4) else None
        loaded = book if book is None or isinstance(book, Book) else load_book(book)
        if loaded is not None and (loaded.rows, loaded.columns, loaded.inarow) != size:
            raise ValueError(
                "the book is for {}×{}, {} in a row, the solver for {}×{}, {}; make one for this size with "
                "`regard connectx book`".format(loaded.rows, loaded.columns, loaded.inarow, *size)
            )
        return loaded

    def for_thread(self) -> "Solver":
        """Return a solver for another thread: it shares the table and the book and has its own work arrays."""
        other = copy(self)
        other._counters = np.zeros(1, dtype=np.int64)
        other._arrays = (self._table, *self._work_arrays(), *self._arrays[4:-1], other._counters)
        return other

    def _work_arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the small table, and the stack of positions and moves from the root to the current node."""
        small_table = np.zeros(2 << min(SMALL_TABLE_BITS, self._key_bits - 1), dtype=np.uint64)
        frames, lists = (self._cells + 1, 8), (self._cells + 1, self.columns, 5)
        return small_table, np.zeros(frames, dtype=np.uint64), np.zeros(lists, dtype=np.uint64)

    @property
    def nodes(self) -> int:
        """Number of positions searched so far."""
        return int(self._counters[0])

    def forget(self) -> None:
        """Clear the table, as in a new solver."""
        self._table.fill(0)
        self._arrays[1].fill(0)
        self._counters[0] = 0

    @overload
    def score(self, board: Board, mask: None = None, *, guess: int | None = None) -> int: ...
    @overload
    def score(self, board: int, mask: int, *, guess: int | None = None) -> int: ...
    def score(self, board: Board | int, mask: int | None = None, *, guess: int | None = None) -> int:
        """Return the score of a board, or of `(position, mask)`, for the side to move. A full board is a draw, 0.

        A good `guess` of the score saves time, a bad one costs time. Raises ValueError if a player has won.
        """
        position, mask = self._check(board, mask)
        return self._solve(position, mask, guess)

    def move_scores(self, position: int, mask: int) -> Scores:
        """Return the score of each column like `scores`, for a board given as bits."""
        position, mask = self._check(position, mask)
        if _has_line(position ^ mask, self._shape) or _has_line(position, self._shape):
            raise self._over()
        stones = mask.bit_count()
        scores: Scores = [None] * self.columns
        symmetric = mirror(position, self._shape) == position and mirror(mask, self._shape) == mask
        guess = NO_GUESS
        for column, cell in self._moves(mask):
            if symmetric and scores[self.columns - 1 - column] is not None:
                scores[column] = scores[self.columns - 1 - column]
                continue
            after = self._call(position ^ mask, mask | cell, guess)
            # The game was not over before, so only the stone just played can have completed a line.
            if after == IS_OVER:
                scores[column] = (self._cells + 1 - stones) // 2
            else:
                scores[column], guess = -after, after  # neighbouring moves often have the same score
        return scores

    def _moves(self, mask: int) -> list[tuple[int, int]]:
        """Return the playable columns, those near the centre first, each with the square where its stone lands."""
        playable, column = _playable_squares(mask, self._shape), (1 << self.rows) - 1
        squares = [(c, playable & column << c * self._shape.stride) for c in centre_first(self.columns)]
        return [move for move in squares if move[1]]

    def scores(self, board: Board) -> Scores:
        """Return the score of each column for the side that plays it, None where the column is full.

        Raises ValueError if a player has won already; on a full board all scores are None.
        """
        return self.move_scores(*self._check(board))

    def best(self, board: Board) -> int:
        """Return the column with the best score, from 0; of several, the one nearest the centre."""
        position, mask = self._check(board)
        score = self._solve(position, mask, None)
        if mask == self._shape.full:
            raise ValueError("the board is full, so there is no move to choose")
        return self._best(position, mask, score)[0]

    def _best(self, position: int, mask: int, score: int) -> tuple[int, int]:
        """Return the best move nearest to the centre, given the position's score; faster than scoring all moves."""
        for column, cell in self._moves(mask):
            after = self._call(position ^ mask, mask | cell, NO_GUESS, -score, 1 - score)
            if after in (-score, IS_OVER):
                return column, cell
        raise AssertionError("defect in the solver: no move reaches the score of the position")

    def line(self, board: Board) -> list[int]:
        """Return the columns that both sides play under best play, to the end of the game."""
        position, mask = self._check(board)
        line: list[int] = []
        score = self._solve(position, mask, None)
        while mask != self._shape.full:
            column, cell = self._best(position, mask, score)
            line.append(column)
            position, mask, score = position ^ mask, mask | cell, -score
            if _has_line(position ^ mask, self._shape):
                break
        return line

    def outcome(self, board: Board) -> str:
        """Return the result under best play with the number of stones it takes: "win in 3", "loss in 2" or "draw"."""
        position, mask = self._check(board)
        return self.outcome_of(self._solve(position, mask, None), mask.bit_count())

    def outcome_of(self, score: int, stones: int) -> str:
        """Return a score in words, for the side to move with this many stones on the board."""
        if score == 0:
            return "draw"
        if score > 0:
            return f"win in {(self._cells + 1 - stones) // 2 - score + 1}"
        return f"loss in {(self._cells - stones) // 2 + score + 1}"

    def batch(self, boards: Iterable[Board], processes: int | None = None, *, progress: bool = False) -> list[Scores]:
        """Return the `scores` of many boards, computed in several processes.

        The default is one process per core if there are more than a few boards. With `progress`, a bar on stderr shows
        the progress and the time left.
        """
        positions = [self._check(board) for board in boards]
        if processes is None:
            processes = min(available_cores(), len(positions) // 64 + 1)
        if processes < 1:
            raise ValueError(f"processes must be at least 1, got {processes}")
        from regard.parallel import LocalEngine, Work  # not at the top, because an exported player has no such module

        self.get_ready()
        size = max(1, min(16, len(positions) // (4 * processes)))
        parts = [slice(first, first + size) for first in range(0, len(positions), size)]
        work: Work[slice, list[Scores]] = Work(_prepare, (self, positions), threads=None, in_advance=1)
        scores: dict[int, list[Scores]] = {}
        with LocalEngine(processes) as engine, engine.start(work) as pool:
            results = pool.results(parts)
            if progress:
                from rich.console import Console
                from rich.progress import track

                results = track(results, "solving", len(parts), console=Console(stderr=True))  # type: ignore[assignment]
            for part, result in results:
                scores[part.start] = result
        return [row for first in sorted(scores) for row in scores[first]]

    def _check(self, board: Board | int, mask: int | None = None) -> tuple[int, int]:
        """Return position and mask after checking them."""
        if mask is None:
            if isinstance(board, int):
                raise TypeError("expected a board, or a position and a mask; got a position alone")
            if (board.rows, board.columns, board.inarow) != (self.rows, self.columns, self.inarow):
                raise ValueError(
                    f"the solver is for {self.rows}×{self.columns}, {self.inarow} in a row, the board is "
                    f"{board.rows}×{board.columns}, {board.inarow}; make a Solver of that size"
                )
            position, mask = int(board.position), int(board.mask)
        elif isinstance(board, int):
            position = board
        else:
            raise TypeError("expected a board alone, or a position and a mask as integers; got a board and a mask")
        stray = mask & ~self._shape.full | position & ~mask | (mask + self._shape.bottom) & mask
        if stray or position.bit_count() != mask.bit_count() // 2:
            raise ValueError(
                f"position {position:#x} and mask {mask:#x} are not a board of {self.rows}×{self.columns}: stones must "
                "stand on each other, and the side to move has as many as the other, or one fewer"
            )
        return position, mask

    def _over(self) -> ValueError:
        return ValueError(f"the game is over: a player has {self.inarow} in a row, so there is nothing to score")

    def _solve(self, position: int, mask: int, guess: int | None) -> int:
        score = self._call(position, mask, NO_GUESS if guess is None else guess)
        if score == IS_OVER:
            raise self._over()
        return score

    def _call(self, position: int, mask: int, guess: int, least: int = -100, most: int = 100) -> int:
        """Return the score, or IS_OVER. Bounds `least` and `most` that contain the score make the search faster."""
        if self._is_draw:
            return 0
        if not self._ready:
            self.get_ready()
        return self._search(np.uint64(position), np.uint64(mask), guess, least, most, *self._arrays)

    def get_ready(self) -> None:
        """Load the compiled search from the cache, or compile it and announce that on stderr."""
        if not self._ready:
            with announce_compilation(f"the solver for {self.rows}×{self.columns}, {self.inarow} in a row"):
                full = np.uint64(self._shape.full)
                self._search(full, full, NO_GUESS, -100, 100, *self._arrays)
            self._ready = True


def _centre_weights(rows: int, columns: int) -> NDArray[np.uint64]:
    """Return the priority that each cell gives to a move; it is higher near the centre."""
    weights = np.zeros(64, dtype=np.uint64)
    for column in range(columns):
        first = column * (rows + 1)
        weights[first : first + rows] = 2 * columns - 2 * abs(2 * column - columns + 1) + 20
    return weights


def _flatten(book: Book | None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the layers of a book in one array, and the index of each layer's start in it; −1 for a missing layer."""
    layers = {} if book is None else book.layers
    starts = np.full(max(layers, default=0) + 1, -1, dtype=np.int64)
    end = 0
    for stones, layer in layers.items():
        starts[stones] = end
        end += layer.size
    return np.concatenate([np.zeros(0, np.uint8), *layers.values()]), starts


def _new_solver(rows: int, columns: int, inarow: int, book: Book | None, table_bits: int) -> Solver:
    return Solver(rows, columns, inarow, book=book, table_bits=max(table_bits, MIN_TABLE_BITS))


def _prepare(solver: Solver, positions: list[tuple[int, int]]) -> Callable[[slice], list[Scores]]:
    return lambda part: [solver.move_scores(*bits) for bits in positions[part]]
