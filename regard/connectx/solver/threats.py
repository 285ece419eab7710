"""Bit tricks on a board of any size: lines, threats, mirror.

A cell is the bit `column * stride + row` of a 64-bit number, with row 0 at the bottom and `stride = rows + 1`: the
spare bit on top of each column keeps a line from running out of one column into the next. So a step up is a shift by
1, a step right by `stride`, and the diagonals are shifts by `stride - 1` and `stride + 1`.

The functions take the size as plain numbers. Called with constants, from a function made for one size, they fold into
straight code.
"""

# mypy: disable-error-code="no-untyped-call"
# (numba infers the types of the compiled functions)

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from regard.compiled import compiled

ONE = np.uint64(1)
ZERO = np.uint64(0)
NOT_SUNK = 100
_instruction: Any = intrinsic  # its results are called with fewer arguments than they are written with


@_instruction
def popcount(typing_context, bits):  # type: ignore[no-untyped-def]
    """How many bits of a uint64 are set, in one instruction."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@_instruction
def lowest(typing_context, bits):  # type: ignore[no-untyped-def]
    """The index of the lowest set bit of a uint64; 64 if there is none."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@_instruction
def prefetch(typing_context, array, index):  # type: ignore[no-untyped-def]
    """Ask the memory for a place of an array that will be read soon."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(struct.data, [arguments[1]]), cgutils.voidptr_t)
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind)
        builder.call(function, [place, ir.Constant(i32, 0), ir.Constant(i32, 3), ir.Constant(i32, 1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


@compiled(cache=False)
def in_line(stones, stride, inarow):  # type: ignore[no-untyped-def]
    """Whether `inarow` of the stones stand in a line."""
    for step in (1, stride - 1, stride, stride + 1):
        if (inarow - 1) * step > 63:
            continue
        if inarow == 4:
            pairs = stones & (stones >> np.uint64(step))
            run = pairs & (pairs >> np.uint64(2 * step))
        else:
            run = stones
            for i in range(1, inarow):
                run &= stones >> np.uint64(i * step)
        if run != ZERO:
            return True
    return False


@compiled(cache=False)
def threats(stones, stride, inarow):  # type: ignore[no-untyped-def]
    """The cells, taken or not, where one more stone would complete a line; also spare bits: mask the result."""
    found = ZERO
    if inarow == 4:
        found = (stones << ONE) & (stones << np.uint64(2)) & (stones << np.uint64(3))
        for step in (stride - 1, stride, stride + 1):
            if 3 * step > 63:
                continue
            up = stones << np.uint64(step)
            down = stones >> np.uint64(step)
            up2 = up & (stones << np.uint64(2 * step))
            down2 = down & (stones >> np.uint64(2 * step))
            found |= up2 & ((stones << np.uint64(3 * step)) | down)
            found |= down2 & ((stones >> np.uint64(3 * step)) | up)
        return found
    for step in (1, stride - 1, stride, stride + 1):
        if (inarow - 1) * step > 63:
            continue
        for hole in range(inarow):
            run = ~ZERO
            for i in range(inarow):
                if i < hole:
                    run &= stones << np.uint64((hole - i) * step)
                elif i > hole:
                    run &= stones >> np.uint64((i - hole) * step)
            found |= run
    return found


@compiled(cache=False)
def sunk(position, mask, against, alpha, rows, stride, inarow, bottom, board, first):  # type: ignore[no-untyped-def]
    """An upper bound, at most alpha, of the side to move, by zugzwang; NOT_SUNK if that gives none.

    Say the other side always answers on top of the stone just set. Then the side to move gets only the cells of every
    second row (`first`: an even number of cells from there to the top). In a column with an odd number of free cells
    that would not end well for the answering side; but with an even number of such columns it can answer a stone on
    the lowest free cell of one (`lows`) with the lowest of another, after which all is even. If the cells that the side
    to move may get so, and the stones it has, make no line, it cannot win. If besides that a threat of the answering
    side lies in a cell that it is sure to get, the side to move must lose, at the latest when all else is full.

    With an odd number of free cells in all, the side to move would come to answer. A threat of the other side in an
    odd column, on a cell of `first`, turns that round: there it is the side to move that must not play below it.
    """
    second = board & ~first
    lows = (mask + bottom) & second
    free = board & ~mask
    if popcount(free) & ONE == ZERO:
        worst = 0
        if alpha < 0:
            sure = against & second & ~lows
            for row in range(rows):
                if sure & (bottom << np.uint64(row)):
                    worst = -((rows + 1 - row) // 2)
                    break
        if worst <= alpha and not in_line(position | (free & first) | lows, stride, inarow):
            return worst
        return NOT_SUNK
    odd = ((bottom << np.uint64(rows)) - lows) & board
    sure = against & first & odd
    while sure != ZERO:
        cell = sure & (~sure + ONE)
        at = lowest(cell)
        first_of_column = at - at % np.uint64(stride)
        its_column = np.uint64((1 << rows) - 1) << first_of_column
        sure &= ~its_column
        worst = -((rows + 1 - np.int64(at - first_of_column)) // 2)
        if worst <= alpha:
            mine = position | (((free & first) | lows) & ~its_column) | (free & second & its_column & (cell - ONE))
            if not in_line(mine, stride, inarow):
                return worst
    return NOT_SUNK


@compiled(cache=False)
def mirror(bits, stride, columns):  # type: ignore[no-untyped-def]
    """The board, or a key made of it, with left and right exchanged."""
    column = (ONE << np.uint64(stride)) - ONE
    out = ZERO
    for i in range(columns):
        out |= ((bits >> np.uint64(i * stride)) & column) << np.uint64((columns - 1 - i) * stride)
    return out


@compiled(cache=False)
def rank(position, mask, stones, stride, columns, ways, choose):  # type: ignore[no-untyped-def]
    """The number of a position, or of its mirror image, among all with as many stones: a place in a book.

    First come the heights of the columns, read from the left, then which of the stones, read from the bottom left, are
    the mover's. `ways[i, s]` says how many heights the last `i` columns may have that sum to `s`, `choose[i, k]` how
    many ways there are to choose `k` of `i`. Of a position and its mirror image the one with the smaller key counts.
    """
    key = position + mask
    other = mirror(key, stride, columns)
    if other < key:
        position = mirror(position, stride, columns)
        mask = mirror(mask, stride, columns)
    column = (ONE << np.uint64(stride)) - ONE
    heights = 0
    colours = 0
    left = stones
    of_mover = stones // 2
    for i in range(columns):
        own = (position >> np.uint64(i * stride)) & column
        height = np.int64(popcount((mask >> np.uint64(i * stride)) & column))
        for lower in range(height):
            heights += ways[columns - 1 - i, left - lower]
            remaining = left - lower - 1
            if (own >> np.uint64(lower)) & ONE:
                colours += choose[remaining, of_mover]
                of_mover -= 1
        left -= height
    return heights * choose[stones, stones // 2] + colours
