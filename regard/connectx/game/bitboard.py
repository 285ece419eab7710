"""Stones as bits, and what follows from them with a few shifts.

A board is two integers: `position`, the stones of the side to move, and `mask`, all stones. The bit of a square is
column·(rows + 1) + row, row 0 at the bottom. The spare row on top of each column is never occupied, so that lines
shifted by one square never run over into the next column:

    5 12 19 ...      d = 1          up
    4 11 18 ...      d = rows + 1   to the right
    ...              d = rows + 2   diagonally up
    0  7 14 ...      d = rows       diagonally down

With (rows + 1)·columns ≤ 64 all fits a machine word: bit 63, the sign, could only be of a spare row. Sums that reach it
are avoided (numba promises LLVM that there are none), shifts may. The functions mean the same for Python's integers,
where boards may be larger.
"""

from functools import cache, lru_cache
from typing import NamedTuple

from regard.compiled import compiled


class Shape(NamedTuple):
    """The numbers that a board's size gives: `bottom` and `full` are the squares of row 0 and of all rows."""

    rows: int
    columns: int
    inarow: int
    stride: int
    bottom: int
    full: int


@lru_cache(maxsize=None, typed=True)  # 6.0 is not taken for 6
def shape(rows: int, columns: int, inarow: int) -> Shape:
    """The shape of a board, checked.

    >>> shape(2, 3, 2).full == 0b011_011_011
    True
    """
    for name, value in (("rows", rows), ("columns", columns), ("inarow", inarow)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be an int, got {value!r}")
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if columns > 35:
        raise ValueError(f"columns must be at most 35, as many as there are signs 1-9 and a-z, got {columns}")
    bottom = sum(1 << column * (rows + 1) for column in range(columns))
    return Shape(rows, columns, inarow, rows + 1, bottom, bottom * ((1 << rows) - 1))


def fits(shape: Shape) -> bool:
    """Whether the board fits a machine word: the fast path is for these.

    >>> fits(shape(6, 7, 4)), fits(shape(7, 8, 4)), fits(shape(8, 8, 4))
    (True, True, False)
    """
    return shape.stride * shape.columns <= 64 and shape.rows < 62


@compiled
def fours(stones: int, stride: int) -> int:
    """The first squares of all lines of four."""
    up = stones & (stones >> 1)
    right = stones & (stones >> stride)
    rising = stones & (stones >> (stride + 1))
    falling = stones & (stones >> (stride - 1))
    lines = up & (up >> 2)
    lines |= right & (right >> 2 * stride)
    lines |= rising & (rising >> 2 * (stride + 1))
    return lines | falling & (falling >> 2 * (stride - 1))


@compiled
def aligned(stones: int, shape: Shape) -> bool:
    """Whether the stones hold a line."""
    stride = shape.stride
    if shape.inarow == 4:
        return fours(stones, stride) != 0
    for step in (1, stride, stride + 1, stride - 1):
        line = stones
        for _ in range(shape.inarow - 1):
            line &= line >> step
        if line != 0:
            return True
    return False


@compiled
def completing(stones: int, shape: Shape) -> int:
    """The squares that would complete a line of these stones, occupied ones among them."""
    found = 0
    stride = shape.stride
    for step in (1, stride, stride + 1, stride - 1):
        if shape.inarow == 4:
            # Two stones side by side, and the three ways a line of four has them without the missing one.
            after, before = stones >> step, (stones << step) & shape.full
            pair = after & (after >> step)  # both next squares
            found |= pair & (before | (pair >> step))
            pair = before & (before << step)  # both squares before
            found |= pair & (after | (pair << step))
        else:
            for below in range(shape.inarow):
                square = shape.full
                for _ in range(below):
                    square = ((square & stones) << step) & shape.full
                run = shape.full
                for _ in range(shape.inarow - 1 - below):
                    run = (run & stones) >> step
                found |= square & run
    return found & shape.full


@compiled
def possible(mask: int, shape: Shape) -> int:
    """The squares where a stone can come to lie now."""
    return (mask << 1 | shape.bottom) & ~mask & shape.full


@compiled
def candidates(position: int, mask: int, shape: Shape) -> int:
    """The moves worth a thought: a win if there is one, else the blocks that are needed, else no gift.

    A gift is a stone under a square where the opponent then wins. Where every move is one, all are given.
    """
    moves = possible(mask, shape)
    wins = completing(position, shape) & moves
    if wins:
        return wins
    theirs = completing(position ^ mask, shape) & ~mask
    if theirs & moves:
        return theirs & moves
    kept = moves & ~(theirs >> 1)
    return kept if kept else moves


@compiled
def careful(position: int, mask: int, shape: Shape) -> int:
    """The squares that lose nothing within two moves, among those that do not end the game; 0 if there are none."""
    moves = possible(mask, shape)
    theirs = completing(position ^ mask, shape) & ~mask
    needed = theirs & moves
    if needed & (needed - 1):  # two to be stopped with one stone
        return 0
    return (needed if needed else moves) & ~completing(position, shape) & ~(theirs >> 1)


@compiled
def count(bits: int) -> int:
    """How many bits are set (LLVM knows this loop as one instruction)."""
    found = 0
    while bits:
        bits &= bits - 1
        found += 1
    return found


@compiled
def column_bits(column: int, shape: Shape) -> int:
    """The squares of one column."""
    return ((1 << shape.rows) - 1) << (column * shape.stride)


@cache
def from_the_centre(columns: int) -> tuple[int, ...]:
    """The columns in the order in which they are worth trying.

    >>> from_the_centre(7)
    (3, 2, 4, 1, 5, 0, 6)
    """
    return tuple(sorted(range(columns), key=lambda column: (abs(2 * column - columns + 1), column)))


def mirrored(bits: int, shape: Shape) -> int:
    """The bits with left and right exchanged.

    >>> mirrored(0b001_000_010, shape(2, 3, 2)) == 0b010_000_001
    True
    """
    one, turned = (1 << shape.stride) - 1, 0
    for _ in range(shape.columns):
        turned = turned << shape.stride | bits & one
        bits >>= shape.stride
    return turned
