"""Bitboards: the stones of a board as bits of an integer, and the rules of the game as shifts.

A board is two integers: `position`, the stones of the side to move, and `mask`, all stones. The bit of a square is
column·(rows + 1) + row, with row 0 at the bottom. The spare bit on top of each column is never occupied, so a line that
is shifted by one square never runs over into the next column:

    5 12 19 ...      step 1          up
    4 11 18 ...      step rows + 1   to the right
    ...              step rows + 2   diagonally up
    0  7 14 ...      step rows       diagonally down

Every function accepts signed and unsigned 64-bit integers, for boards with (rows + 1)·columns ≤ 64, and, uncompiled,
Python integers for boards of any size. A signed board never has bit 63 set, because that bit could only belong to a
spare row. Left shifts may set it; sums that could reach it are avoided, since numba assumes that sums do not overflow.
"""

from functools import cache, lru_cache
from typing import NamedTuple, TypeVar

from regard.numba_functions import compiled

B = TypeVar("B")  # an integer or an array of integers


class Shape(NamedTuple):
    """Size of a board and the constants that follow from it.

    `stride` is the distance of two columns in bits, `bottom` has the squares of row 0, `full` those of all rows.
    """

    rows: int
    columns: int
    inarow: int
    stride: int
    bottom: int
    full: int


@lru_cache(maxsize=None, typed=True)  # typed, so that 6.0 does not return the cached shape of 6
def board_shape(rows: int, columns: int, inarow: int) -> Shape:
    """Return the shape of a board after checking its size.

    >>> board_shape(2, 3, 2).full == 0b011_011_011
    True
    """
    for name, value in (("rows", rows), ("columns", columns), ("inarow", inarow)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be an int, got {value!r}")
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if columns > 35:
        raise ValueError(f"columns must be at most 35, because move strings use the signs 1-9 and a-z, got {columns}")
    bottom = sum(1 << column * (rows + 1) for column in range(columns))
    return Shape(rows, columns, inarow, rows + 1, bottom, bottom * ((1 << rows) - 1))


def fits_in_64_bits(shape: Shape) -> bool:
    """Return whether the board fits into a 64-bit integer, which compiled functions need.

    >>> [fits_in_64_bits(board_shape(rows, columns, 4)) for rows, columns in ((6, 7), (7, 8), (8, 8))]
    [True, True, False]
    """
    return shape.stride * shape.columns <= 64 and shape.rows < 62


@compiled
def _fours(stones: int, step: int) -> int:
    pairs = stones & (stones >> step)
    return pairs & (pairs >> step >> step)  # two shifts: 2 * step may exceed 63, which machine code cannot shift by


@compiled
def lines_of_four(stones: int, stride: int) -> int:
    """Return the first square of every line of four, without branches, so that loops over boards are vectorized."""
    return _fours(stones, 1) | _fours(stones, stride - 1) | _fours(stones, stride) | _fours(stones, stride + 1)


@compiled
def has_line(stones: int, shape: Shape) -> bool:
    """Return whether the stones contain a line of `inarow`."""
    stride = shape.stride
    if shape.inarow == 4:
        return lines_of_four(stones, stride) != 0
    for step in (1, stride - 1, stride, stride + 1):
        line = stones
        for _ in range(shape.inarow - 1):
            line &= line >> step
        if line != 0:
            return True
    return False


@compiled
def _completing_fours(stones: int, step: int) -> int:
    before = stones << step
    two_before = before << step
    after = stones >> step
    two_after = after >> step
    return before & two_before & (after | two_before << step) | after & two_after & (before | two_after >> step)


@compiled
def completing_bits(stones: int, shape: Shape) -> int:
    """Return the bits where one more stone would complete a line, including occupied squares and spare bits.

    For a vertical line of four only the square on top is returned, because an empty square has no stones above it.
    """
    stride, inarow = shape.stride, shape.inarow
    if inarow == 4:
        bits = (stones << 1) & (stones << 2) & (stones << 3)
        bits |= _completing_fours(stones, stride - 1) | _completing_fours(stones, stride)
        return bits | _completing_fours(stones, stride + 1)
    bits = stones ^ stones  # 0 in the integer type of the stones
    for step in (1, stride - 1, stride, stride + 1):
        for gap in range(inarow):
            line = ~(stones ^ stones)
            shifted = stones
            for _ in range(gap):
                shifted = shifted << step
                line &= shifted
            shifted = stones
            for _ in range(inarow - 1 - gap):
                shifted = shifted >> step
                line &= shifted
            bits |= line
    return bits


@compiled
def completing_squares(stones: int, shape: Shape) -> int:
    """Return the squares, empty or occupied, where one more stone would complete a line."""
    return completing_bits(stones, shape) & shape.full


@compiled
def playable_squares(mask: int, shape: Shape) -> int:
    """Return the lowest empty square of every column that is not full."""
    return (mask << 1 | shape.bottom) & ~mask & shape.full


@compiled
def sensible_moves(position: int, mask: int, shape: Shape) -> int:
    """Return the winning moves; if there are none, the necessary blocks; if there are none, the moves after which
    the opponent does not win on the square above.

    If after every move the opponent wins on the square above, all moves are returned.
    """
    moves = playable_squares(mask, shape)
    wins = completing_squares(position, shape) & moves
    if wins:
        return wins
    threats = completing_squares(position ^ mask, shape) & ~mask
    if threats & moves:
        return threats & moves
    safe = moves & ~(threats >> 1)
    return safe if safe else moves


@compiled
def safe_moves(position: int, mask: int, shape: Shape) -> int:
    """Return the moves that neither end the game nor let the opponent win with the next stone; 0 if there are none."""
    moves = playable_squares(mask, shape)
    threats = completing_squares(position ^ mask, shape) & ~mask
    blocks = threats & moves
    if blocks & (blocks - 1):  # one stone cannot stop two threats
        return 0
    return (blocks if blocks else moves) & ~completing_squares(position, shape) & ~(threats >> 1)


@compiled
def popcount(bits: int) -> int:
    """Return the number of set bits (LLVM compiles this loop to one instruction)."""
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


@compiled
def column_squares(column: int, shape: Shape) -> int:
    """Return the squares of one column."""
    return ((1 << shape.rows) - 1) << (column * shape.stride)


@cache
def centre_first(columns: int) -> tuple[int, ...]:
    """Return the columns ordered by their distance from the centre; of two at the same distance the left one is first.

    >>> centre_first(7)
    (3, 2, 4, 1, 5, 0, 6)
    """
    return tuple(sorted(range(columns), key=lambda column: (abs(2 * column - columns + 1), column)))


def centre_most(moves: int, shape: Shape) -> int:
    """Return the column nearest to the centre that contains one of these squares."""
    column = (1 << shape.rows) - 1
    return next(c for c in centre_first(shape.columns) if moves >> c * shape.stride & column)


def mirror(bits: B, shape: Shape) -> B:
    """Return the bits with left and right exchanged; works on integers and on arrays of integers.

    >>> mirror(0b001_000_010, board_shape(2, 3, 2)) == 0b010_000_001
    True
    """
    column = ~(~(bits ^ bits) << shape.stride)  # type: ignore[operator]  # 1 << stride, minus 1, in the type of bits
    result = bits ^ bits  # type: ignore[operator]
    for number in range(shape.columns):
        result = result << shape.stride | (bits >> number * shape.stride) & column  # type: ignore[operator]
    return result
