"""Zugzwang: an upper bound of a position's score that needs no search.

Assume that the opponent always answers on top of the stone just set. Then the side to move gets only the cells of every
second row (`first_cells`: an even number of cells remains from there to the top). In a column with an odd number of
free cells the opponent would run out of answers. But if the number of such columns is even, the opponent can answer a
stone on the lowest free cell of one of them (`lowest_cells`) with the lowest cell of another, and then every column is
even. If the cells that the side to move may get this way, together with its stones, contain no line, it cannot win. If
the opponent also has a threat on a cell that it is sure to get, the side to move loses, at the latest when all other
cells are full.

With an odd number of free cells in total the roles are exchanged: the side to move would have to answer. A threat of
the opponent in an odd column, on a cell of `first_cells`, exchanges them again: now the side to move must not play the
cell below it.
"""

# mypy: disable-error-code="no-untyped-call,arg-type"
# (numba infers the types of the compiled functions)

import numpy as np

from regard.connectx.game.bitboard import has_line
from regard.connectx.solver.bit_instructions import lowest, popcount
from regard.numba_functions import compiled

ONE = np.uint64(1)
ZERO = np.uint64(0)
NO_BOUND = 100


@compiled(cache=False, inline="always")
def zugzwang_bound(position, mask, threats, alpha, shape, first_cells):  # type: ignore[no-untyped-def]
    """Return an upper bound, at most alpha, of the score of the side to move; NO_BOUND if zugzwang gives none.

    `threats` are the free cells where the opponent completes a line.
    """
    rows, bottom, board = shape.rows, np.uint64(shape.bottom), np.uint64(shape.full)
    second_cells = board & ~first_cells
    lowest_cells = (mask + bottom) & second_cells
    free = board & ~mask
    if popcount(free) & ONE == ZERO:
        bound = 0
        if alpha < 0:
            sure = threats & second_cells & ~lowest_cells
            for row in range(rows):
                if sure & (bottom << np.uint64(row)):
                    bound = -((rows + 1 - row) // 2)
                    break
        if bound <= alpha and not has_line(position | (free & first_cells) | lowest_cells, shape):
            return bound
        return NO_BOUND
    odd_columns = ((bottom << np.uint64(rows)) - lowest_cells) & board
    sure = threats & first_cells & odd_columns
    while sure != ZERO:
        cell = sure & (~sure + ONE)
        index = lowest(cell)
        column_start = index - index % np.uint64(shape.stride)
        column = np.uint64((1 << rows) - 1) << column_start
        sure &= ~column
        bound = -((rows + 1 - np.int64(index - column_start)) // 2)
        if bound <= alpha:
            below = free & second_cells & column & (cell - ONE)
            if not has_line(position | (((free & first_cells) | lowest_cells) & ~column) | below, shape):
                return bound
    return NO_BOUND
