"""Alpha-beta: deeper and deeper, with a table of positions met, and ready to stop at any node.

The value of a position is that of its best move, and a move is worth the negated value of what follows. A branch is
left as soon as it is known to be worse than one found before. A win with the board's n-th stone counts WIN − n, so
that sooner is better; where the depth ends, the squares that would complete a line are counted instead, above all
those on the rows where a player comes to move in a full board (odd rows for the first, even for the second).

A search of depth d sees every win and loss within d + 2 stones, since each position at its end is looked at two stones
ahead. A win further off can come out of the table: it is one, but not surely the soonest.

The search keeps its own stack in arrays instead of calling itself: it can be left after any node and taken up again.
The same code runs on lists of Python's integers, for boards larger than 64 bits and where there is no numba.
"""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.compiled import compiled, uncompiled
from regard.connectx.game.bitboard import Shape, completing, count, fits, from_the_centre, possible
from regard.connectx.search.time_budget import in_slices

WIN = 1_000_000
SURE = 900_000  # values beyond are wins or losses, not guesses
AHEAD = 2  # stones that are looked at beyond the depth
OPEN = 1 << 40  # no value yet
EXACT, AT_LEAST, AT_MOST = 1, 2, 3
PLY, NODES, DEPTH, STONES, ROOT_MOVES, VALUE, BEST, FINISHED = range(8)  # places in `register`


class Stack(NamedTuple):
    """The line of play under search: one place a ply, and for `moves` a row of columns a ply."""

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
    """Positions met: the position in one array, and value, depth, kind and move packed into one integer."""

    key: Any
    entry: Any


class Guess(NamedTuple):
    """What the value of an undecided position is made of: rows that are odd, columns near the centre, and an order."""

    odd: int
    inner: int


@compiled
def guess(position: int, mask: int, mine: int, theirs: int, stones: int, weights: Guess) -> int:
    """The worth of an undecided position for the side to move; `mine` and `theirs` complete a line."""
    odd = weights.odd
    even = ~odd
    good, bad = (odd, even) if stones % 2 == 0 else (even, odd)
    return (
        10 * (count(mine) - count(theirs))
        + 20 * (count(mine & good) - count(theirs & bad))
        + 3 * (count(position & weights.inner) - count((position ^ mask) & weights.inner))
    )


@compiled
def enter(ply: int, stack: Stack, table: Table, shape: Shape, weights: Guess, order: Any) -> int:
    """The value of the position on this ply if it is known; else OPEN, and its moves in the order to try them."""
    position, mask, register = stack.position[ply], stack.mask[ply], stack.register
    stones = register[STONES] + ply
    deeper = register[DEPTH] - ply
    moves = possible(mask, shape)
    if moves == 0:
        return 0
    mine = completing(position, shape) & ~mask
    theirs = completing(position ^ mask, shape) & ~mask
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
        return guess(position, mask, mine, theirs, stones, weights)
    key = position | (mask << 1 | shape.bottom) & ~mask
    slot = key % len(table.key)
    known_move = -1
    if table.key[slot] == key and table.entry[slot] != 0:
        entry = table.entry[slot]
        known_move = (entry & 63) - 1
        kind, depth, value = (entry >> 6) & 3, (entry >> 8) & 4095, (entry >> 20) - OPEN // 1048576
        sure = kind == EXACT and WIN - abs(value) <= stones + depth + AHEAD
        if ply > 0 and (depth >= deeper or sure):
            if kind == EXACT:
                return value
            if kind == AT_LEAST:
                stack.alpha[ply] = max(stack.alpha[ply], value)
            else:
                stack.beta[ply] = min(stack.beta[ply], value)
            if stack.alpha[ply] >= stack.beta[ply]:
                return value
    # The best move of a shallower search first, then those that threaten most, then those near the centre.
    row, found = ply * (shape.columns + 1), 0
    for rank in range(shape.columns):
        column = order[rank]
        bit = moves & (((1 << shape.rows) - 1) << (column * shape.stride))
        if bit == 0:
            continue
        worth = 1_000_000 if column == known_move else count(completing(position | bit, shape) & ~mask)
        at = found
        while at > 0 and stack.moves[row + 1 + at - 1] >> 6 < worth:
            stack.moves[row + 1 + at] = stack.moves[row + 1 + at - 1]
            at -= 1
        stack.moves[row + 1 + at] = worth << 6 | column
        found += 1
    stack.moves[row] = found
    return OPEN


@compiled
def advance(nodes: int, stack: Stack, table: Table, shape: Shape, weights: Guess, order: Any) -> int:
    """Search up to so many nodes further; how many it were. register[FINISHED] says when the depth is done."""
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
            value = enter(ply, stack, table, shape, weights, order)
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
class Found:
    """What a search found: the column, its value, how deep and how many nodes; `sure` when the value is the truth."""

    column: int
    value: int
    depth: int
    nodes: int
    sure: bool

    def score(self, cells: int) -> int | None:
        """The truth as the solver counts it on a board of so many squares; None where it is only a guess.

        >>> Found(column=3, value=WIN - 7, depth=1, nodes=1, sure=True).score(42)  # with the seventh stone
        18
        """
        if not self.sure:
            return None
        if abs(self.value) <= SURE:
            return 0
        score = (cells + 2 - (WIN - abs(self.value))) // 2
        return score if self.value > 0 else -score


class AlphaBeta:
    """A search for boards of one size; its table is kept from move to move.

    >>> from regard.connectx import Board
    >>> from regard.connectx.game import bitboard as bits
    >>> search = AlphaBeta(bits.shape(6, 7, 4))
    >>> board = Board.from_moves("445566")
    >>> search.run(board.position, board.mask, depth=4).column in (2, 6)
    True
    """

    def __init__(self, shape: Shape, table: int = 1 << 19, *, plain: bool = False) -> None:
        self.shape = shape
        self.plain = plain or not fits(shape) or not hasattr(advance, "py_func")
        self._advance: Any = uncompiled(advance) if self.plain else advance
        plies = shape.rows * shape.columns + 2

        def zeros(size: int) -> Any:
            return [0] * size if self.plain else np.zeros(size, np.int64)

        places = {name: zeros(plies) for name in Stack._fields}
        self.stack = Stack(**places | {"moves": zeros(plies * (shape.columns + 1)), "register": zeros(8)})
        self.table = Table(zeros(table + 7), zeros(table + 7))
        rows = sum(1 << row for row in range(0, shape.rows, 2))
        centre = [column for column in range(shape.columns) if abs(2 * column - shape.columns + 1) <= 2]
        inner = sum(((1 << shape.rows) - 1) << column * shape.stride for column in centre)
        self.weights = Guess(shape.bottom * rows, inner)
        order = from_the_centre(shape.columns)
        self.order: Any = order if self.plain else np.array(order, np.int64)

    def run(
        self, position: int, mask: int, *, depth: int | None = None, seconds: float | None = None, moves: int = 0
    ) -> Found:
        """Search to this depth, or as deep as the time allows; `moves` are the squares to choose from (all if 0)."""
        begun = time.perf_counter()
        shape, stack, register = self.shape, self.stack, self.stack.register
        legal = uncompiled(possible)(mask, shape)
        wins = uncompiled(completing)(position, shape) & legal
        moves = moves or wins or legal
        if not moves:
            raise ValueError("there is no move to choose: the board is full")
        if moves & wins:
            moves &= wins
        column = next(c for c in from_the_centre(shape.columns) if moves >> c * shape.stride & ((1 << shape.rows) - 1))
        stones = mask.bit_count()
        if moves & wins:
            return Found(column, WIN - (stones + 1), 1, 0, True)
        left = shape.rows * shape.columns - stones
        best = Found(column, 0, 0, 0, False)
        total = 0
        for deep in range(1, min(depth or left, left, 4000) + 1):
            register[PLY], register[NODES], register[DEPTH], register[STONES] = 0, 0, deep, stones
            register[ROOT_MOVES], register[VALUE], register[BEST], register[FINISHED] = moves, 0, -1, 0
            stack.position[0], stack.mask[0], stack.tried[0] = position, mask, -1
            stack.alpha[0] = stack.first_alpha[0] = -WIN
            stack.beta[0] = WIN
            in_slices(self._step, seconds, begun=None if deep == 1 else begun)
            total += int(register[NODES])
            finished = bool(register[FINISHED])
            if register[BEST] >= 0:  # also of a depth not finished: its first move was the best so far
                value = int(register[VALUE])
                sure = finished and (WIN - abs(value) <= stones + deep + AHEAD or deep >= left)
                best = Found(int(register[BEST]), value, deep if finished else deep - 1, total, sure)
            if not finished or best.sure:
                break
        return best

    def _step(self, nodes: int) -> int:
        done = self._advance(nodes, self.stack, self.table, self.shape, self.weights, self.order)
        return done if not self.stack.register[FINISHED] else min(done, nodes - 1)
