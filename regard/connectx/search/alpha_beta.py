"""Alpha-beta search with iterative deepening and a transposition table; it can stop after any node.

The value of a position is that of its best move, and the value of a move is the negated value of the position after it.
A branch is left as soon as it is known to be worse than another one. A win with the board's n-th stone counts WIN − n,
so that sooner wins are better. At the end of the depth an estimate counts the squares that would complete a line, above
all those on the rows where a player gets to move when all other squares are full (odd rows for the first player, even
rows for the second).

A search of depth d finds every win and loss within d + 2 stones, because each position at its end is examined two
stones ahead. The table can give a win that is farther away; it is a win, but possibly not the soonest.

The search keeps its stack in arrays instead of recursing, so it can stop after any node and continue later. The same
code runs on lists of Python integers, for boards larger than 64 bits and where numba is missing.
"""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.connectx.game.bitboard import (
    Shape,
    centre_first,
    centre_most,
    completing_squares,
    fits_in_64_bits,
    playable_squares,
    popcount,
)
from regard.connectx.search.time_budget import run_in_slices
from regard.numba_functions import compiled, uncompiled

WIN = 1_000_000
PROVEN = 900_000  # values beyond this are wins or losses, not estimates
AHEAD = 2  # stones that are examined beyond the depth
OPEN = 1 << 40  # instead of a value: the value is not known yet
EXACT, AT_LEAST, AT_MOST = 1, 2, 3
PLY, NODES, DEPTH, STONES, ROOT_MOVES, VALUE, BEST, FINISHED = range(8)  # indices of `register`


class Stack(NamedTuple):
    """State of the search along the current line: one element per ply; `moves` has a row of columns per ply."""

    position: Any
    mask: Any
    alpha: Any
    first_alpha: Any
    beta: Any
    best: Any
    move: Any
    tried: Any
    moves: Any
    register: Any


class Table(NamedTuple):
    """Transposition table: `key` identifies the position; `entry` packs value, depth, kind and move into an integer."""

    key: Any
    entry: Any


class EstimateSquares(NamedTuple):
    """The squares that the estimate of an undecided position counts: those of odd rows, and those near the centre."""

    odd_rows: int
    centre: int


@compiled
def estimate(position: int, mask: int, mine: int, theirs: int, stones: int, squares: EstimateSquares) -> int:
    """Return an estimate of an undecided position; `mine` and `theirs` are the squares that complete a line."""
    odd, even = squares.odd_rows, ~squares.odd_rows
    good, bad = (odd, even) if stones % 2 == 0 else (even, odd)
    return (
        10 * (popcount(mine) - popcount(theirs))
        + 20 * (popcount(mine & good) - popcount(theirs & bad))
        + 3 * (popcount(position & squares.centre) - popcount((position ^ mask) & squares.centre))
    )


@compiled
def enter(ply: int, stack: Stack, table: Table, shape: Shape, squares: EstimateSquares, order: Any) -> int:
    """Return the value of the position on this ply if no search is needed; else sort its moves and return OPEN."""
    position, mask, register = stack.position[ply], stack.mask[ply], stack.register
    stones = register[STONES] + ply
    deeper = register[DEPTH] - ply
    moves = playable_squares(mask, shape)
    if moves == 0:
        return 0
    mine = completing_squares(position, shape) & ~mask
    theirs = completing_squares(position ^ mask, shape) & ~mask
    if ply == 0:
        moves = register[ROOT_MOVES]
    elif mine & moves:
        return WIN - (stones + 1)
    elif theirs & moves:
        moves &= theirs
        if moves & (moves - 1):
            return stones + 2 - WIN
    else:
        moves &= ~(theirs >> 1)
        if moves == 0:
            return stones + 2 - WIN
    if deeper <= 0:
        return estimate(position, mask, mine, theirs, stones, squares)
    key = position | (mask << 1 | shape.bottom) & ~mask
    slot = key % len(table.key)
    table_move = -1
    if table.key[slot] == key and table.entry[slot] != 0:
        entry = table.entry[slot]
        table_move = (entry & 63) - 1
        kind, depth, value = (entry >> 6) & 3, (entry >> 8) & 4095, (entry >> 20) - OPEN // 1048576
        proven = kind == EXACT and WIN - abs(value) <= stones + depth + AHEAD
        if ply > 0 and (depth >= deeper or proven):
            if kind == EXACT:
                return value
            if kind == AT_LEAST:
                stack.alpha[ply] = max(stack.alpha[ply], value)
            else:
                stack.beta[ply] = min(stack.beta[ply], value)
            if stack.alpha[ply] >= stack.beta[ply]:
                return value
    # The best move of a shallower search first, then moves with many threats, then moves near the centre.
    row, count = ply * (shape.columns + 1), 0
    for rank in range(shape.columns):
        column = order[rank]
        bit = moves & (((1 << shape.rows) - 1) << (column * shape.stride))
        if bit == 0:
            continue
        priority = 1_000_000 if column == table_move else popcount(completing_squares(position | bit, shape) & ~mask)
        at = count
        while at > 0 and stack.moves[row + 1 + at - 1] >> 6 < priority:
            stack.moves[row + 1 + at] = stack.moves[row + 1 + at - 1]
            at -= 1
        stack.moves[row + 1 + at] = priority << 6 | column
        count += 1
    stack.moves[row] = count
    return OPEN


@compiled
def advance(nodes: int, stack: Stack, table: Table, shape: Shape, squares: EstimateSquares, order: Any) -> int:
    """Search up to `nodes` further nodes and return their number; set register[FINISHED] when the depth is complete."""
    register = stack.register
    ply = register[PLY]
    done = 0
    width = shape.columns + 1
    while True:
        value = OPEN
        if stack.tried[ply] < 0:
            if done == nodes:
                register[PLY] = ply
                register[NODES] += done
                return done
            done += 1
            value = enter(ply, stack, table, shape, squares, order)
            stack.tried[ply] = 0
            stack.best[ply], stack.move[ply] = -OPEN, 0
        if value == OPEN:
            tried = stack.tried[ply]
            if tried < stack.moves[ply * width] and stack.alpha[ply] < stack.beta[ply]:
                column = stack.moves[ply * width + 1 + tried] & 63
                position, mask = stack.position[ply], stack.mask[ply]
                stack.tried[ply] = tried + 1
                stack.position[ply + 1] = position ^ mask
                stack.mask[ply + 1] = mask | (mask + (1 << (column * shape.stride)))
                stack.alpha[ply + 1] = stack.first_alpha[ply + 1] = -stack.beta[ply]
                stack.beta[ply + 1] = -stack.alpha[ply]
                stack.tried[ply + 1] = -1
                ply += 1
                continue
            value = stack.best[ply]
            kind = AT_LEAST if value >= stack.beta[ply] else AT_MOST if value <= stack.first_alpha[ply] else EXACT
            key = stack.position[ply] | (stack.mask[ply] << 1 | shape.bottom) & ~stack.mask[ply]
            slot = key % len(table.key)
            table.key[slot] = key
            deeper = register[DEPTH] - ply
            packed = (value + OPEN // 1048576) << 20 | deeper << 8 | kind << 6 | (stack.move[ply] + 1)
            table.entry[slot] = packed
        if ply == 0:
            register[PLY] = 0
            register[NODES] += done
            register[FINISHED] = 1
            return done
        ply -= 1
        value = -value
        if value > stack.best[ply]:
            stack.best[ply] = value
            stack.move[ply] = stack.moves[ply * width + stack.tried[ply]] & 63
            if value > stack.alpha[ply]:
                stack.alpha[ply] = value
            if ply == 0:
                register[VALUE], register[BEST] = value, stack.move[0]


@dataclass(frozen=True)
class SearchResult:
    """Result of a search: the best column, its value, depth and number of nodes; `proven` if the value is exact."""

    column: int
    value: int
    depth: int
    nodes: int
    proven: bool

    def score(self, cells: int) -> int | None:
        """Return the score as the solver counts it on a board of this many squares; None if it is only an estimate.

        >>> SearchResult(column=3, value=WIN - 7, depth=1, nodes=1, proven=True).score(42)  # with the seventh stone
        18
        """
        if not self.proven:
            return None
        if abs(self.value) <= PROVEN:
            return 0
        score = (cells + 2 - (WIN - abs(self.value))) // 2
        return score if self.value > 0 else -score


class AlphaBeta:
    """Alpha-beta search for boards of one size; its table is reused from move to move.

    shape       size of the boards
    table       number of entries of the table
    plain       run uncompiled Python

    >>> from regard.connectx import Board
    >>> board = Board.from_moves("445566")
    >>> search = AlphaBeta(board.shape)
    >>> search.run(board.position, board.mask, depth=4).column in (2, 6)
    True
    """

    def __init__(self, shape: Shape, table: int = 1 << 19, *, plain: bool = False) -> None:
        self.shape = shape
        self.plain = plain or not fits_in_64_bits(shape) or not hasattr(advance, "py_func")
        self._advance: Any = uncompiled(advance) if self.plain else advance
        plies = shape.rows * shape.columns + 2

        def zeros(size: int) -> Any:
            return [0] * size if self.plain else np.zeros(size, np.int64)

        arrays = {name: zeros(plies) for name in Stack._fields}
        self.stack = Stack(**arrays | {"moves": zeros(plies * (shape.columns + 1)), "register": zeros(8)})
        self.table = Table(zeros(table + 7), zeros(table + 7))
        odd_rows = sum(1 << row for row in range(0, shape.rows, 2))
        centre = [column for column in range(shape.columns) if abs(2 * column - shape.columns + 1) <= 2]
        centre_squares = sum(((1 << shape.rows) - 1) << column * shape.stride for column in centre)
        self.squares = EstimateSquares(shape.bottom * odd_rows, centre_squares)
        order = centre_first(shape.columns)
        self.order: Any = order if self.plain else np.array(order, np.int64)

    def run(
        self, position: int, mask: int, *, depth: int | None = None, seconds: float | None = None, moves: int = 0
    ) -> SearchResult:
        """Search to this depth, or as deep as the time allows; `moves` are the first moves to choose from (0: all)."""
        start = time.perf_counter()
        shape, stack, register = self.shape, self.stack, self.stack.register
        legal = uncompiled(playable_squares)(mask, shape)
        wins = uncompiled(completing_squares)(position, shape) & legal
        moves = moves or wins or legal
        if not moves:
            raise ValueError("the board is full, so there is no move to choose")
        if moves & wins:
            moves &= wins
        column = centre_most(moves, shape)
        stones = mask.bit_count()
        if moves & wins:
            return SearchResult(column, WIN - (stones + 1), 1, 0, True)
        left = shape.rows * shape.columns - stones
        best = SearchResult(column, 0, 0, 0, False)
        total = 0
        for deep in range(1, min(depth or left, left, 4000) + 1):
            register[PLY], register[NODES], register[DEPTH], register[STONES] = 0, 0, deep, stones
            register[ROOT_MOVES], register[VALUE], register[BEST], register[FINISHED] = moves, 0, -1, 0
            stack.position[0], stack.mask[0], stack.tried[0] = position, mask, -1
            stack.alpha[0] = stack.first_alpha[0] = -WIN
            stack.beta[0] = WIN
            run_in_slices(self._step, seconds, start=None if deep == 1 else start)
            total += int(register[NODES])
            finished = bool(register[FINISHED])
            if register[BEST] >= 0:  # also at an incomplete depth: its first move is the best of the depth before
                value = int(register[VALUE])
                proven = finished and (WIN - abs(value) <= stones + deep + AHEAD or deep >= left)
                best = SearchResult(int(register[BEST]), value, deep if finished else deep - 1, total, proven)
            if not finished or best.proven:
                break
        return best

    def _step(self, nodes: int) -> int:
        done = self._advance(nodes, self.stack, self.table, self.shape, self.squares, self.order)
        return done if not self.stack.register[FINISHED] else min(done, nodes - 1)
