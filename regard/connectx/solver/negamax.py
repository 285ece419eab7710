"""Negamax search that proves the exact score of a position, compiled for one board size.

The search narrows the score by yes-or-no questions, "is it greater than alpha?". A question is answered as soon as one
move proves yes, or every move has failed to. What makes the search fast:

- It enters a position only if nobody can win at once. A move that allows an immediate win is never tried, and a move
  that leaves the opponent only such moves wins without search.
- Moves that create many threats are tried first, then those near the centre.
- A transposition table stores a lower and an upper bound of each position. The bounds do not depend on the question, so
  all later questions and other threads can use them. Before a move is searched, all moves are looked up.
- Most positions have many stones and are cheap to search again. They use a small table that stays in the processor's
  cache, so that no time is lost waiting for memory and the large table is left to the expensive positions.
- Zugzwang (`zugzwang_bound`) answers many questions without search.

A win scores 1 plus the number of stones that the winner has left after the winning one, a loss the same with a minus, a
draw 0. With `n` stones on the board a win by the next stone scores `(cells + 1 - n) // 2`.
"""

# mypy: disable-error-code="no-untyped-call,assignment,arg-type,unreachable"
# (numba infers the types of the compiled function by rules of its own)

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from regard.connectx.game.bitboard import board_shape, completing_bits, has_line
from regard.connectx.solver.bit_instructions import lowest, popcount, prefetch
from regard.connectx.solver.position_index import compiled_mirror, position_index
from regard.connectx.solver.zugzwang import NO_BOUND, ONE, ZERO, zugzwang_bound
from regard.numba_functions import compiled

U = np.uint64
NO_GUESS = 99
IS_OVER = 100  # returned instead of a score if a player has a line
SMALL_TABLE_BITS = 15  # the small table has 16 bytes × 2^15 = 512 KB, which fits into the processor's cache
MIN_TABLE_BITS = 16  # with a smaller table and 64-bit keys an entry would have fewer than 16 bits for the bounds


@compiled(cache=False, inline="always")
def _look_up(table, place, rest, value_bits):  # type: ignore[no-untyped-def]
    """Return the entry of a key in the two slots at `place`; 0 if there is none."""
    entry = table[place]
    if entry == ZERO or (entry >> value_bits) != rest:
        entry = table[place + ONE]
        if (entry >> value_bits) != rest:
            entry = ZERO
    return entry


@functools.cache
def compiled_search(rows: int, columns: int, inarow: int) -> Callable[..., Any]:
    """Compile and return the search for boards of this size. The length of its table must be a power of two.

    An entry of the table is a 64-bit number. The key of a position, `position + mask`, is multiplied by an odd number
    modulo 2 to the power of its length, which is invertible: the upper bits of the product give the place, the others
    are stored in the entry. So two positions are never confused. The lower bits hold the bounds, the column that
    answered yes last, and the amount of work (log2 of nodes) behind them.
    """
    shape = board_shape(rows, columns, inarow)
    cells = rows * columns
    key_bits = shape.stride * columns
    spare_row = shape.bottom << rows
    # The cells that the side to move gets in a column when the opponent always answers on top: an even number of free
    # cells remains from them up to the top.
    first_cells = sum(shape.bottom << row for row in range(rows) if (rows - row) % 2 == 0)
    near_top = sum(shape.bottom << row for row in range(rows) if rows - row in (1, 3))
    factor = (0x9E3779B97F4A7C15 >> (64 - key_bits)) | 1
    key_mask = (1 << key_bits) - 1
    mirror_until = cells // 3
    # The small table serves positions with at least this many stones. With longer keys its entries have no bits for the
    # work.
    small_from = cells * 3 // 5 if key_bits <= 57 else cells
    look_ahead_until = cells * 3 // 4

    @compiled(error_model="numpy", nogil=True)
    def solve(  # type: ignore[no-untyped-def]
        position, mask, guess, least_known, most_known, table, small_table, frames, lists, weights, book, layers, ways,
        choose, counters,
    ):  # fmt: skip
        BOTTOM, BOARD, SPARE = U(shape.bottom), U(shape.full), U(spare_row)
        FIRST, SECOND, NEAR_TOP = U(first_cells), U(shape.full & ~first_cells), U(near_top)
        FACTOR, KEY, STRIDE = U(factor), U(key_mask), U(shape.stride)
        REST_BITS = U(key_bits + 1) - lowest(U(table.size))
        SMALL_REST_BITS = U(key_bits + 1) - lowest(U(small_table.size))
        VALUE_BITS = U(64) - (REST_BITS if small_from == cells else SMALL_REST_BITS)
        MOST_WORK = (ONE << min(U(6), VALUE_BITS - U(16))) - ONE

        if has_line(position ^ mask, shape) or has_line(position, shape):
            return IS_OVER
        stones = np.int64(popcount(mask))
        nodes = counters[0]
        playable = (mask + BOTTOM) & BOARD
        if playable & completing_bits(position, shape):
            return (cells + 1 - stones) // 2
        threats = completing_bits(position ^ mask, shape) & BOARD & ~mask
        forced = playable & threats
        if forced != ZERO:
            if stones == cells - 1:
                return 0
            if forced & (forced - ONE):
                return -((cells - stones) // 2)
            playable = forced
        if stones >= cells - 1:
            return 0
        root_moves = playable & ~(threats >> ONE)
        if root_moves == ZERO:
            return -((cells - stones) // 2)
        root_threats = threats
        lower = max(-((cells - 2 - stones) // 2), least_known)
        upper = min((cells - 1 - stones) // 2, most_known)
        questions = 0

        while lower < upper:
            # The next question. A guess is tested from both sides; otherwise the open interval is halved, close to 0,
            # where most scores lie.
            middle = lower + (upper - lower) // 2
            if middle <= 0 and lower // 2 < middle:
                middle = -((-lower) // 2)
            elif middle >= 0 and upper // 2 > middle:
                middle = upper // 2
            if guess != NO_GUESS and questions < 2:
                above = (guess <= 0) == (questions == 0)
                middle = min(max(guess if above else guess - 1, lower), upper - 1)
            questions += 1

            depth = 0
            p = position
            m = mask
            n = stones
            threats = root_threats
            moves = root_moves
            value = 0
            entering = True
            while True:
                alpha = -middle - 1 if depth & 1 else middle
                # Number of stones that decide the question: own ones if the side to move must win, else the opponent's.
                horizon = (cells + 1 - n) // 2 - alpha if alpha >= 0 else (cells - n) // 2 + alpha + 1
                in_table = horizon >= 3
                if entering:
                    nodes += 1
                    best = (cells - 1 - n) // 2
                    known = False
                    if best <= alpha:
                        value = best
                        known = True
                    elif -((cells - 2 - n) // 2) > alpha:
                        value = -((cells - 2 - n) // 2)
                        known = True
                    elif alpha >= 0 and horizon == 2:
                        # The answer is yes only if one move creates two threats at once.
                        value = alpha
                        known = True
                        left = moves
                        while left != ZERO:
                            move = left & (~left + ONE)
                            left ^= move
                            m2 = m | move
                            after = completing_bits(p | move, shape) & BOARD & ~m2
                            playable = (m2 + BOTTOM) & BOARD
                            forced = playable & after
                            if forced:
                                if (forced & (forced - ONE)) or (forced & (after >> ONE)):
                                    value = best
                                    break
                            elif (playable & ~(after >> ONE)) == ZERO:
                                value = best
                                break
                    elif alpha >= 0 and horizon == 3:
                        # Three stones to win. `odd` are the free cells of the columns with an odd number of them: there
                        # the opponent, who answers on top, runs out of answers only when the column is full.
                        odd = (SPARE - ((m + BOTTOM) & SECOND)) & BOARD
                        near_top_cells = (m + BOTTOM) & SECOND & NEAR_TOP
                        if popcount(near_top_cells) & ONE == ZERO:
                            mine = p | (BOARD & ~m & FIRST & ~odd) | (odd & SECOND) | ((SPARE - near_top_cells) & BOARD)
                            if not has_line(mine, shape):
                                value = alpha
                                known = True

                    if not known and n < layers.size and layers[n] >= 0:
                        score = book[layers[n] + position_index(p, m, n, shape, ways, choose)]
                        if score != 0:
                            value = np.int64(score) - 128
                            known = True

                    hint = U(15)
                    if not known and in_table:
                        key = p + m
                        mirrored = False
                        if n <= mirror_until:
                            other = compiled_mirror(key, shape)
                            mirrored = other < key
                            key = min(key, other)
                        product = (key * FACTOR) & KEY
                        rest_bits = SMALL_REST_BITS if n >= small_from else REST_BITS
                        place = (product >> rest_bits) << ONE
                        rest = product & ((ONE << rest_bits) - ONE)
                        store = small_table if n >= small_from else table
                        entry = _look_up(store, place, rest, VALUE_BITS)
                        if entry != ZERO:
                            least = np.int64(entry & U(63)) - 32
                            most = np.int64((entry >> U(6)) & U(63)) - 32
                            if least > alpha:
                                value = least
                                known = True
                            elif most <= alpha:
                                value = most
                                known = True
                            hint = (entry >> U(12)) & U(15)
                            if mirrored and hint < U(15):
                                hint = U(columns - 1) - hint
                        frames[depth, 4] = place
                        frames[depth, 5] = rest

                    if not known:
                        look_ahead = horizon > 3 and n < look_ahead_until
                        count = 0
                        left = moves
                        while left != ZERO:
                            move = left & (~left + ONE)
                            left ^= move
                            m2 = m | move
                            after = completing_bits(p | move, shape) & BOARD & ~m2
                            playable = (m2 + BOTTOM) & BOARD
                            forced = playable & after
                            answers = playable
                            if forced != ZERO:
                                if forced & (forced - ONE):
                                    known = True
                                    break
                                answers = forced
                            answers &= ~(after >> ONE)
                            if answers == ZERO:
                                known = True
                                break
                            worst = zugzwang_bound(p ^ m, m2, after, -alpha - 1, shape, FIRST)
                            if worst != NO_BOUND:
                                best = -worst
                                known = True
                                break
                            product = ZERO
                            if look_ahead:
                                key = (p ^ m) + m2
                                if n < mirror_until:
                                    key = min(key, compiled_mirror(key, shape))
                                product = (key * FACTOR) & KEY
                                if n + 1 < small_from:
                                    prefetch(table, (product >> REST_BITS) << ONE)
                                else:
                                    prefetch(small_table, (product >> SMALL_REST_BITS) << ONE)
                            cell = lowest(move)
                            priority = popcount(after) * U(1000) + weights[cell]
                            if hint < U(15) and cell // STRIDE == hint:
                                priority += U(100000)
                            i = count
                            while i > 0 and lists[depth, i - 1, 3] < priority:
                                lists[depth, i, 0] = lists[depth, i - 1, 0]
                                lists[depth, i, 1] = lists[depth, i - 1, 1]
                                lists[depth, i, 2] = lists[depth, i - 1, 2]
                                lists[depth, i, 3] = lists[depth, i - 1, 3]
                                lists[depth, i, 4] = lists[depth, i - 1, 4]
                                i -= 1
                            lists[depth, i, 0] = move
                            lists[depth, i, 1] = after
                            lists[depth, i, 2] = answers
                            lists[depth, i, 3] = priority
                            lists[depth, i, 4] = product
                            count += 1
                        if known:
                            value = best
                        else:
                            best = -100
                            if look_ahead:
                                open_moves = 0
                                store = small_table if n + 1 >= small_from else table
                                rest_bits = SMALL_REST_BITS if n + 1 >= small_from else REST_BITS
                                for i in range(count):
                                    product = lists[depth, i, 4]
                                    place = (product >> rest_bits) << ONE
                                    rest = product & ((ONE << rest_bits) - ONE)
                                    entry = _look_up(store, place, rest, VALUE_BITS)
                                    if entry != ZERO:
                                        least = np.int64(entry & U(63)) - 32
                                        most = np.int64((entry >> U(6)) & U(63)) - 32
                                        if -most > alpha:
                                            value = -most
                                            known = True
                                            break
                                        if -least <= alpha:
                                            best = max(best, -least)
                                            continue
                                    if open_moves != i:
                                        lists[depth, open_moves, 0] = lists[depth, i, 0]
                                        lists[depth, open_moves, 1] = lists[depth, i, 1]
                                        lists[depth, open_moves, 2] = lists[depth, i, 2]
                                    open_moves += 1
                                count = open_moves
                                if not known and count == 0:
                                    value = best
                                    known = True
                        if not known:
                            frames[depth, 0] = p
                            frames[depth, 1] = m
                            frames[depth, 2] = ZERO
                            frames[depth, 3] = U(count)
                            frames[depth, 6] = U(nodes)
                            frames[depth, 7] = U(best + 100)
                            p ^= m
                            m |= lists[depth, 0, 0]
                            threats = lists[depth, 0, 1]
                            moves = lists[depth, 0, 2]
                            n += 1
                            depth += 1
                            continue
                    entering = False
                    if depth == 0:
                        break
                    depth -= 1
                    n -= 1
                    value = -value
                    continue

                # A move has been searched. Try the next one unless the question is answered.
                tried = frames[depth, 2]
                best = max(np.int64(frames[depth, 7]) - 100, value)
                if best <= alpha and tried + ONE < frames[depth, 3]:
                    tried += ONE
                    frames[depth, 2] = tried
                    frames[depth, 7] = U(best + 100)
                    p = frames[depth, 0]
                    m = frames[depth, 1]
                    p ^= m
                    m |= lists[depth, tried, 0]
                    threats = lists[depth, tried, 1]
                    moves = lists[depth, tried, 2]
                    n += 1
                    depth += 1
                    entering = True
                    continue
                if in_table:
                    store = small_table if n >= small_from else table
                    place = frames[depth, 4]
                    rest = frames[depth, 5]
                    effort = nodes - np.int64(frames[depth, 6])
                    work = ZERO
                    while effort > 0 and work < MOST_WORK:
                        effort >>= 1
                        work += ONE
                    least = -31
                    most = 31
                    hint = U(15)
                    entry = store[place]
                    slot = place
                    same = entry != ZERO and (entry >> VALUE_BITS) == rest
                    if not same:
                        entry = store[place + ONE]
                        same = entry != ZERO and (entry >> VALUE_BITS) == rest
                        slot = place + ONE
                    if same:
                        least = np.int64(entry & U(63)) - 32
                        most = np.int64((entry >> U(6)) & U(63)) - 32
                        hint = (entry >> U(12)) & U(15)
                        work = max(work, (entry >> U(16)) & MOST_WORK)
                    else:
                        # The first of the two slots keeps the entry that cost more work, the second the latest one. In
                        # the small table the first slot has the latest entry, the second the one before.
                        entry = store[place]
                        if n >= small_from or work >= (entry >> U(16)) & MOST_WORK:
                            store[place + ONE] = entry
                            slot = place
                    if best > alpha:
                        least = max(least, best)
                        hint = lowest(lists[depth, tried, 0]) // STRIDE
                        key = frames[depth, 0] + frames[depth, 1]
                        if n <= mirror_until and compiled_mirror(key, shape) < key:
                            hint = U(columns - 1) - hint
                        hint = min(hint, U(15))
                    else:
                        most = min(most, best)
                    store[slot] = (
                        (rest << VALUE_BITS)
                        | (work << U(16))
                        | (hint << U(12))
                        | (U(most + 32) << U(6))
                        | U(least + 32)
                    )
                value = best
                if depth == 0:
                    break
                depth -= 1
                n -= 1
                value = -value

            if value > middle:
                lower = value
            else:
                upper = value
        counters[0] = nodes
        return lower

    return solve
