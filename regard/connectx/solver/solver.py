"""The perfect solver: the exact score of any position, of every move, and the best line.

A score counts from the side to move. A win is worth 1 plus the stones that the winner has left after the winning one:
the sooner, the more. On 6×7, where each side has 21 stones, a win with one's n-th stone scores 22 − n. A loss is the
same with a minus, a draw is 0. (On a board with an odd number of cells the first player has one stone more.)
"""

import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from regard.compiled import announce_compilation
from regard.connectx.solver.negamax import IS_OVER, LEAST_BITS, NEAR_BITS, NO_GUESS, compiled
from regard.connectx.solver.opening_book import Book, load_book, ranking

Scores = list[int | None]


class Position(Protocol):
    """What the solver wants of a board: its size, the mover's stones and all stones.

    The bit of a cell is `column * (rows + 1) + row`, with row 0 at the bottom.
    """

    @property
    def position(self) -> int: ...
    @property
    def mask(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def inarow(self) -> int: ...


@dataclass(frozen=True)
class Stones:
    """A position as plain numbers."""

    position: int
    mask: int
    rows: int = 6
    columns: int = 7
    inarow: int = 4


class Solver:
    """Solves positions on boards of one size.

    It keeps a table of what it has found, so the next position of the same game is solved sooner. `table_bits` says
    how large: 16 bytes times 2 to that power (the default is 128 MB). `book` is "shipped" (the opening book that comes
    with regard, for 6×7×4), None, a `Book`, or the path of one that `regard connectx book` wrote.

    >>> from regard.connectx import Solver, position_of
    >>> solver = Solver(4, 4, 3, table_bits=16)
    >>> board = position_of("23", 4, 4, 3)
    >>> solver.scores(board)
    [-5, 4, 3, -2]
    >>> solver.best(board), solver.outcome(board), solver.line(board)
    (1, 'win in 4', [1, 1, 2, 1, 2, 2, 0])
    """

    def __init__(
        self,
        rows: int = 6,
        columns: int = 7,
        inarow: int = 4,
        *,
        book: Book | str | Path | None = "shipped",
        table_bits: int = 23,
    ) -> None:
        for name, value, least in (("rows", rows, 1), ("columns", columns, 1), ("inarow", inarow, 2)):
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
        key_bits = (rows + 1) * columns
        if key_bits > 64:
            raise ValueError(
                f"the solver takes boards with (rows + 1) × columns of at most 64, got {rows}×{columns} ({key_bits}); "
                "take a smaller board, or a player that searches (minimax, mcts)"
            )
        if not LEAST_BITS <= table_bits <= 30:
            raise ValueError(f"table_bits must be between {LEAST_BITS} and 30 (16 GB), got {table_bits}")
        self.rows, self.columns, self.inarow = rows, columns, inarow
        self._bottom = sum(1 << (column * (rows + 1)) for column in range(columns))
        self._board = self._bottom * ((1 << rows) - 1)
        self._cells = rows * columns
        self._key_bits = key_bits
        self._bits = min(table_bits, key_bits - 1)
        self._search = compiled(rows, columns, inarow)
        self._table = np.zeros(2 << self._bits, dtype=np.uint64)
        self._table.fill(0)  # so that the first positions do not pay for fetching the memory
        self._counters = np.zeros(1, dtype=np.int64)
        self._book = self._read(book)
        scores, starts = _flat(self._book)
        self._memory = (
            self._table,
            *self._workplace(),
            _centre_first(rows, columns),
            scores,
            starts,
            *ranking(rows, columns),
            self._counters,
        )
        self._ready = False

    def _read(self, book: Book | str | Path | None) -> Book | None:
        if isinstance(book, str) and book == "shipped":
            return load_book() if (self.rows, self.columns, self.inarow) == (6, 7, 4) else None
        if book is None:
            return None
        found = book if isinstance(book, Book) else load_book(book)
        size = (found.rows, found.columns, found.inarow)
        if size != (self.rows, self.columns, self.inarow):
            raise ValueError(
                "the book is for {}×{}, {} in a row, the solver for {}×{}, {}; make one for this size with "
                "`regard connectx book`".format(*size, self.rows, self.columns, self.inarow)
            )
        return found

    def beside(self) -> "Solver":
        """A solver for another thread: it has the same table and the same book, and its own place to work."""
        other = copy(self)
        other._counters = np.zeros(1, dtype=np.int64)
        other._memory = (self._table, *self._workplace(), *self._memory[4:-1], other._counters)
        return other

    def _workplace(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
        """What a search needs for itself: the small table, and the positions and moves from the root to where it is."""
        near = np.zeros(2 << min(NEAR_BITS, self._key_bits - 1), dtype=np.uint64)
        depths = self._cells + 1
        frames, lists = (depths, 8), (depths, self.columns, 5)
        return near, np.zeros(frames, dtype=np.uint64), np.zeros(lists, dtype=np.uint64)

    @property
    def nodes(self) -> int:
        """How many positions were entered so far."""
        return int(self._counters[0])

    def forget(self) -> None:
        """Empty the table, as in a new solver."""
        self._table.fill(0)
        self._memory[1].fill(0)
        self._counters[0] = 0

    @overload
    def score(self, board: Position, mask: None = None, *, guess: int | None = None) -> int: ...
    @overload
    def score(self, board: int, mask: int, *, guess: int | None = None) -> int: ...
    def score(self, board: Position | int, mask: int | None = None, *, guess: int | None = None) -> int:
        """The score of a board, or of `(position, mask)`, for the side to move. A full board is a draw, 0.

        A good guess saves time, a bad one costs some; the score is the same. A ValueError if somebody has won.
        """
        position, mask = self._stones(board, mask)
        return self._solve(position, mask, guess)

    def move_scores(self, position: int, mask: int) -> Scores:
        """The score of each column for the side that plays it, None where it is full: on stones as numbers."""
        position, mask = self._stones(position, mask)
        if _has_line(position ^ mask, self.rows + 1, self.inarow) or _has_line(position, self.rows + 1, self.inarow):
            raise ValueError(f"the game is over: somebody has {self.inarow} in a row; there is nothing to score")
        stones = mask.bit_count()
        scores: Scores = [None] * self.columns
        symmetric = self._mirrored(position) == position and self._mirrored(mask) == mask
        guess = NO_GUESS
        for column, cell in self._moves(mask):
            if symmetric and scores[self.columns - 1 - column] is not None:
                scores[column] = scores[self.columns - 1 - column]
                continue
            after = self._call(position ^ mask, mask | cell, guess)
            # Only the stone just played can have made a line: before it the game was not over.
            if after == IS_OVER:
                scores[column] = (self._cells + 1 - stones) // 2
            else:
                scores[column], guess = -after, after  # a move is often worth as much as the one before
        return scores

    def _moves(self, mask: int) -> list[tuple[int, int]]:
        """The columns that are not full and the cell where a stone comes to lie, from the middle."""
        stride, column_bits = self.rows + 1, (1 << self.rows) - 1
        cells = [(c, (mask + (1 << (c * stride))) & (column_bits << (c * stride))) for c in range(self.columns)]
        return sorted((move for move in cells if move[1]), key=lambda move: abs(2 * move[0] - self.columns + 1))

    def scores(self, board: Position) -> Scores:
        """The score of each column for the side that plays it, None where it is full.

        A ValueError if somebody has won already; on a full board all are None.
        """
        return self.move_scores(*self._stones(board))

    def best(self, board: Position) -> int:
        """The column with the best score, from 0; of several the one nearest the middle."""
        position, mask = self._stones(board)
        score = self._solve(position, mask, None)
        if mask == self._board:
            raise ValueError("the board is full: there is no move to choose")
        return self._best(position, mask, score)

    def _best(self, position: int, mask: int, score: int) -> int:
        """The first column from the middle that reaches the position's score; sooner found than all scores."""
        for column, cell in self._moves(mask):
            after = self._call(position ^ mask, mask | cell, NO_GUESS, -score, 1 - score)
            if after in (-score, IS_OVER):
                return column
        raise AssertionError("one of the moves is worth what the position is")

    def line(self, board: Position) -> list[int]:
        """The columns that both sides play when both play best, to the end of the game."""
        position, mask = self._stones(board)
        line: list[int] = []
        score = self._solve(position, mask, None)
        while mask != self._board:
            line.append(self._best(position, mask, score))
            cell = dict(self._moves(mask))[line[-1]]
            position, mask, score = position ^ mask, mask | cell, -score
            if _has_line(position ^ mask, self.rows + 1, self.inarow):
                break
        return line

    def outcome(self, board: Position) -> str:
        """The result under best play, with the stones that the winner needs: "win in 3", "loss in 2" or "draw"."""
        position, mask = self._stones(board)
        return self.in_words(self._solve(position, mask, None), mask.bit_count())

    def in_words(self, score: int, stones: int) -> str:
        """What a score means to the side to move when so many stones are on the board."""
        if score == 0:
            return "draw"
        if score > 0:
            return f"win in {(self._cells + 1 - stones) // 2 - score + 1}"
        return f"loss in {(self._cells - stones) // 2 + score + 1}"

    def batch(
        self, boards: Iterable[Position], processes: int | None = None, *, progress: bool = False
    ) -> list[Scores]:
        """`scores` of many boards, in several processes (as many as cores, if more than a few boards).

        With `progress` it shows how far it is, with rate and time left.
        """
        stones = [self._stones(board) for board in boards]
        if processes is None:
            processes = min(_cores(), len(stones) // 64 + 1)
        if processes < 1:
            raise ValueError(f"processes must be at least 1, got {processes}")
        self.get_ready()
        with _shown(len(stones), progress) as step:
            if processes == 1:
                return [step(self.move_scores(*both)) for both in stones]
            context = multiprocessing.get_context("spawn")  # a fork would copy threads that are not there
            settings = (self.rows, self.columns, self.inarow, self._book, self._bits)
            with ProcessPoolExecutor(processes, context, _start, settings) as pool:
                chunk = max(1, min(16, len(stones) // (4 * processes)))
                return [step(scores) for scores in pool.map(_scores_in_worker, stones, chunksize=chunk)]

    def _stones(self, board: Position | int, mask: int | None = None) -> tuple[int, int]:
        """The position and the mask, checked."""
        if mask is None:
            if isinstance(board, int):
                raise TypeError("give a board, or a position and a mask; got a position alone")
            if (board.rows, board.columns, board.inarow) != (self.rows, self.columns, self.inarow):
                raise ValueError(
                    f"the solver is for {self.rows}×{self.columns}, {self.inarow} in a row, the board is "
                    f"{board.rows}×{board.columns}, {board.inarow}; make a Solver of that size"
                )
            position, mask = int(board.position), int(board.mask)
        elif isinstance(board, int):
            position = board
        else:
            raise TypeError("a mask goes with a position as a number; a board has its own")
        if (
            mask & ~self._board
            or position & ~mask
            or (mask + self._bottom) & mask
            or position.bit_count() != mask.bit_count() // 2
        ):
            raise ValueError(
                f"position {position:#x} and mask {mask:#x} are no board of {self.rows}×{self.columns}: stones must "
                "stand on each other, and the side to move has as many as the other, or one fewer"
            )
        return position, mask

    def _solve(self, position: int, mask: int, guess: int | None) -> int:
        score = self._call(position, mask, NO_GUESS if guess is None else guess)
        if score == IS_OVER:
            raise ValueError(f"the game is over: somebody has {self.inarow} in a row; there is nothing to score")
        return score

    def _call(self, position: int, mask: int, guess: int, least: int = -100, most: int = 100) -> int:
        """The score, or IS_OVER; a score that is known to be within these bounds is found sooner."""
        if not self._ready:
            self.get_ready()
        return self._search(np.uint64(position), np.uint64(mask), guess, least, most, *self._memory)

    def get_ready(self) -> None:
        """Load the compiled search, or compile it and say so."""
        if not self._ready:
            with announce_compilation(f"the solver for {self.rows}×{self.columns}, {self.inarow} in a row"):
                self._search(np.uint64(self._board), np.uint64(self._board), NO_GUESS, -100, 100, *self._memory)
            self._ready = True

    def _mirrored(self, bits: int) -> int:
        stride = self.rows + 1
        column = (1 << stride) - 1
        return sum(((bits >> (c * stride)) & column) << ((self.columns - 1 - c) * stride) for c in range(self.columns))


def position_of(moves: str | Sequence[int], rows: int = 6, columns: int = 7, inarow: int = 4) -> "Stones":
    """The position after these moves, columns from 1, as plain stones: enough for the solver.

    >>> position_of("44").mask == 3 << 21
    True
    """
    position = mask = 0
    stride = rows + 1
    for number, move in enumerate(moves, 1):
        column = int(str(move)) - 1 if str(move).isdigit() else -1
        if not 0 <= column < columns:
            raise ValueError(f"move {number} is {move!r}; moves are columns from 1 to {columns}, as in 44435")
        cell = (mask + (1 << (column * stride))) & (((1 << rows) - 1) << (column * stride))
        if not cell:
            raise ValueError(f"move {number} plays column {column + 1}, which is full")
        if _has_line(position ^ mask, stride, inarow):
            raise ValueError(f"move {number} comes after the game was won by move {number - 1}; leave it out")
        position, mask = position ^ mask, mask | cell
    return Stones(position, mask, rows, columns, inarow)


def _has_line(stones: int, stride: int, inarow: int) -> bool:
    for step in (1, stride - 1, stride, stride + 1):
        run = stones
        for i in range(1, inarow):
            run &= stones >> (i * step)
        if run:
            return True
    return False


def _centre_first(rows: int, columns: int) -> NDArray[np.uint64]:
    """What a cell adds to a move's promise: more in the middle."""
    weights = np.zeros(64, dtype=np.uint64)
    for column in range(columns):
        first = column * (rows + 1)
        weights[first : first + rows] = 2 * columns - 2 * abs(2 * column - columns + 1) + 20
    return weights


def _flat(book: Book | None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The layers of a book one after another, and where each begins; −1 where there is none."""
    layers = {} if book is None else book.layers
    starts = np.full(max(layers, default=0) + 1, -1, dtype=np.int64)
    end = 0
    for stones, layer in layers.items():
        starts[stones] = end
        end += layer.size
    return np.concatenate([np.zeros(0, np.uint8), *layers.values()]), starts


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _shown(total: int, progress: bool) -> Iterator[Any]:
    """A function that counts what passes through it, on a progress bar if asked."""
    if not progress:
        yield lambda scores: scores
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("solving"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)

        def step(scores: Scores) -> Scores:
            bar.advance(task)
            return scores

        yield step


_solver: Solver | None = None


def _start(rows: int, columns: int, inarow: int, book: Book | None, bits: int) -> None:
    global _solver
    _solver = Solver(rows, columns, inarow, book=book, table_bits=max(bits, LEAST_BITS))


def _scores_in_worker(stones: tuple[int, int]) -> Scores:
    assert _solver is not None
    return _solver.move_scores(*stones)
