"""Consecutive numbers for the positions with a given number of stones: a book uses them as indices and stores no keys.

The number of a position combines the heights of its columns, read from the left, and which of its stones, read from the
bottom left, belong to the side to move. A position and its mirror image have the same number.
"""

# mypy: disable-error-code="no-untyped-call"
# (numba infers the types of the compiled functions)

from math import comb

import numpy as np
from numpy.typing import NDArray

from regard.connectx.game.bitboard import mirror
from regard.connectx.solver.bit_instructions import popcount
from regard.numba_functions import compiled

MAX_STONES = 24  # arrays for positions with more stones do not fit into memory

compiled_mirror = compiled(cache=False)(mirror)


@compiled(cache=False)
def position_index(position, mask, stones, shape, ways, choose):  # type: ignore[no-untyped-def]
    """Return the number of a position (two uint64), or of its mirror image if that has the smaller key.

    `ways` and `choose` are the tables of `index_tables`.
    """
    key = position + mask
    if compiled_mirror(key, shape) < key:
        position = compiled_mirror(position, shape)
        mask = compiled_mirror(mask, shape)
    columns, one = shape.columns, np.uint64(1)
    column_bits = (one << np.uint64(shape.stride)) - one
    heights = 0
    colours = 0
    left = stones
    of_mover = stones // 2
    for column in range(columns):
        own = (position >> np.uint64(column * shape.stride)) & column_bits
        height = np.int64(popcount((mask >> np.uint64(column * shape.stride)) & column_bits))
        for row in range(height):
            heights += ways[columns - 1 - column, left - row]
            remaining = left - row - 1
            if (own >> np.uint64(row)) & one:
                colours += choose[remaining, of_mover]
                of_mover -= 1
        left -= height
    return heights * choose[stones, stones // 2] + colours


def index_tables(rows: int, columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the tables `ways` and `choose` of `position_index`.

    `ways[i, s]` is the number of heights of the last `i` columns with sum `s`, `choose[i, k]` the number of ways to
    choose `k` of `i`.
    """
    cells = rows * columns
    ways = np.zeros((columns + 1, cells + 1), dtype=np.int64)
    ways[0, 0] = 1
    for i in range(1, columns + 1):
        for total in range(cells + 1):
            ways[i, total] = ways[i - 1, max(0, total - rows) : total + 1].sum()
    most = min(cells, MAX_STONES)
    choose = np.array([[comb(i, k) for k in range(most + 1)] for i in range(most + 1)], dtype=np.int64)
    return ways, choose


def layer_size(rows: int, columns: int, stones: int) -> int:
    """Return the size of a layer: one more than the largest index of a position with this many stones."""
    ways, choose = index_tables(rows, columns)
    return int(ways[columns, stones] * choose[stones, stones // 2])
