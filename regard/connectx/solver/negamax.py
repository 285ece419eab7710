"""The exact score of a position: a search that proves it, compiled for one size of board.

The score is narrowed by yes-or-no questions, "is it more than alpha?", each answered by a search that stops as soon as
one move proves yes, or none can. What makes that fast:

- A position is entered only when nobody wins at once: a move that allows an immediate win is never tried, and one
  that leaves the other side nothing but such moves wins without being searched.
- Moves that make many threats come first, then those in the middle.
- A transposition table keeps a lower and an upper bound of each position. Its entries are facts, true whatever the
  question was, so they serve all later questions, and other threads. Before a move is searched, the table is asked
  about all of them.
- Most positions met are late ones, soon searched again from scratch if need be. These have a small table of their own,
  which stays in the processor's cache: there is no waiting for memory, and the large table is left to what took work.
- Zugzwang (`threats.sunk`): a player who always answers on top of the other's stone gets every second cell. Where that
  settles a question, it is seen without search, and before another move is searched.

A player's score is 1 plus the stones left to the winner after the winning one, negative for a loss, 0 for a draw. With
`n` stones on the board a win by the next stone is worth `(cells + 1 - n) // 2`.
"""

# mypy: disable-error-code="no-untyped-call,assignment,arg-type,unreachable"
# (numba infers the types of the compiled function by rules of its own)

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from regard.compiled import compiled as numba_compiled
from regard.connectx.solver.threats import (
    NOT_SUNK,
    ONE,
    ZERO,
    in_line,
    lowest,
    mirror,
    popcount,
    prefetch,
    rank,
    sunk,
    threats,
)

U = np.uint64
NO_GUESS = 99
IS_OVER = 100  # instead of a score, when somebody has a line
NEAR_BITS = 15  # the small table has 16 bytes times 2 to this power: it stays in the processor's own memory
LEAST_BITS = 16  # with 64-bit keys, an entry has 16 bits for what is known


@functools.cache
def compiled(rows: int, columns: int, inarow: int) -> Callable[..., Any]:
    """The search for boards of this size. Its table may have any power of two of entries.

    An entry of the table is a 64-bit number. The key of a position, `position + mask`, is multiplied by an odd number
    modulo 2 to the power of its length, which loses nothing: the upper bits of the product say the place, the others
    stand in the entry. So no two positions are ever taken for one another. The lower bits hold the bounds, the column
    that answered yes last, and how much work (log2 of nodes) stands behind them.
    """
    stride = rows + 1
    cells = rows * columns
    key_bits = stride * columns
    bottom_row = sum(1 << (column * stride) for column in range(columns))
    all_cells = bottom_row * ((1 << rows) - 1)
    spare_row = bottom_row << rows
    # The cells that the side to move gets in a column when the other always answers on top: an even number of free
    # cells remains from them up to the top.
    first_cells = sum(bottom_row << row for row in range(rows) if (rows - row) % 2 == 0)
    near_top = sum(bottom_row << row for row in range(rows) if rows - row in (1, 3))
    factor = (0x9E3779B97F4A7C15 >> (64 - key_bits)) | 1
    key_mask = (1 << key_bits) - 1
    mirror_until = cells // 3
    # From so many stones on the small table serves; with longer keys its entries would have no room for the work.
    near_from = cells * 3 // 5 if key_bits <= 57 else cells
    ask_ahead_until = cells * 3 // 4

    @numba_compiled(error_model="numpy", nogil=True)
    def solve(  # type: ignore[no-untyped-def]
        position,
        mask,
        guess,
        least_known,
        most_known,
        table,
        near,
        frames,
        lists,
        weights,
        book,
        layers,
        ways,
        choose,
        counters,
    ):
        BOTTOM, BOARD, SPARE = U(bottom_row), U(all_cells), U(spare_row)
        FIRST, SECOND, NEAR_TOP = U(first_cells), U(all_cells & ~first_cells), U(near_top)
        FACTOR, KEY, STRIDE = U(factor), U(key_mask), U(stride)
        REST_BITS = U(key_bits + 1) - lowest(U(table.size))
        NEAR_REST_BITS = U(key_bits + 1) - lowest(U(near.size))
        VALUE_BITS = U(64) - (REST_BITS if near_from == cells else NEAR_REST_BITS)
        MOST_WORK = (ONE << min(U(6), VALUE_BITS - U(16))) - ONE

        if in_line(position ^ mask, stride, inarow) or in_line(position, stride, inarow):
            return IS_OVER
        stones = np.int64(popcount(mask))
        nodes = counters[0]
        playable = (mask + BOTTOM) & BOARD
        if playable & threats(position, stride, inarow):
            return (cells + 1 - stones) // 2
        against = threats(position ^ mask, stride, inarow) & BOARD & ~mask
        forced = playable & against
        if forced != ZERO:
            if stones == cells - 1:
                return 0
            if forced & (forced - ONE):
                return -((cells - stones) // 2)
            playable = forced
        if stones >= cells - 1:
            return 0
        root_moves = playable & ~(against >> ONE)
        if root_moves == ZERO:
            return -((cells - stones) // 2)
        root_against = against
        lower = max(-((cells - 2 - stones) // 2), least_known)
        upper = min((cells - 1 - stones) // 2, most_known)
        asked = 0

        while lower < upper:
            # The next question. A guess is tried from both sides; otherwise halve what is open, staying near 0, where
            # scores are likely.
            middle = lower + (upper - lower) // 2
            if middle <= 0 and lower // 2 < middle:
                middle = -((-lower) // 2)
            elif middle >= 0 and upper // 2 > middle:
                middle = upper // 2
            if guess != NO_GUESS and asked < 2:
                above = (guess <= 0) == (asked == 0)
                middle = min(max(guess if above else guess - 1, lower), upper - 1)
            asked += 1

            depth = 0
            p = position
            m = mask
            n = stones
            against = root_against
            moves = root_moves
            value = 0
            entering = True
            while True:
                alpha = -middle - 1 if depth & 1 else middle
                # The stones within which the question is decided: mine when I must win, else the other side's.
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
                        # One move to make two threats at once, or the question is answered.
                        value = alpha
                        known = True
                        left = moves
                        while left != ZERO:
                            move = left & (~left + ONE)
                            left ^= move
                            m2 = m | move
                            after = threats(p | move, stride, inarow) & BOARD & ~m2
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
                        # Three stones to win: `odd` are the free cells of the columns with an odd number of them. There
                        # the one who always answers runs out of answers only when the column is full.
                        odd = (SPARE - ((m + BOTTOM) & SECOND)) & BOARD
                        topped = (m + BOTTOM) & SECOND & NEAR_TOP
                        if popcount(topped) & ONE == ZERO:
                            mine = p | (BOARD & ~m & FIRST & ~odd) | (odd & SECOND) | ((SPARE - topped) & BOARD)
                            if not in_line(mine, stride, inarow):
                                value = alpha
                                known = True

                    if not known and n < layers.size and layers[n] >= 0:
                        score = book[layers[n] + rank(p, m, n, stride, columns, ways, choose)]
                        if score != 0:
                            value = np.int64(score) - 128
                            known = True

                    hint = U(15)
                    if not known and in_table:
                        key = p + m
                        mirrored = False
                        if n <= mirror_until:
                            other = mirror(key, stride, columns)
                            mirrored = other < key
                            key = min(key, other)
                        product = (key * FACTOR) & KEY
                        rest_bits = NEAR_REST_BITS if n >= near_from else REST_BITS
                        place = (product >> rest_bits) << ONE
                        rest = product & ((ONE << rest_bits) - ONE)
                        store = near if n >= near_from else table
                        entry = store[place]
                        if entry == ZERO or (entry >> VALUE_BITS) != rest:
                            entry = store[place + ONE]
                            if (entry >> VALUE_BITS) != rest:
                                entry = ZERO
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
                        ask_ahead = horizon > 3 and n < ask_ahead_until
                        count = 0
                        left = moves
                        while left != ZERO:
                            move = left & (~left + ONE)
                            left ^= move
                            m2 = m | move
                            after = threats(p | move, stride, inarow) & BOARD & ~m2
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
                            worst = sunk(p ^ m, m2, after, -alpha - 1, rows, stride, inarow, BOTTOM, BOARD, FIRST)
                            if worst != NOT_SUNK:
                                best = -worst
                                known = True
                                break
                            product = ZERO
                            if ask_ahead:
                                key = (p ^ m) + m2
                                if n < mirror_until:
                                    key = min(key, mirror(key, stride, columns))
                                product = (key * FACTOR) & KEY
                                if n + 1 < near_from:
                                    prefetch(table, (product >> REST_BITS) << ONE)
                                else:
                                    prefetch(near, (product >> NEAR_REST_BITS) << ONE)
                            cell = lowest(move)
                            promise = popcount(after) * U(1000) + weights[cell]
                            if hint < U(15) and cell // STRIDE == hint:
                                promise += U(100000)
                            i = count
                            while i > 0 and lists[depth, i - 1, 3] < promise:
                                lists[depth, i, 0] = lists[depth, i - 1, 0]
                                lists[depth, i, 1] = lists[depth, i - 1, 1]
                                lists[depth, i, 2] = lists[depth, i - 1, 2]
                                lists[depth, i, 3] = lists[depth, i - 1, 3]
                                lists[depth, i, 4] = lists[depth, i - 1, 4]
                                i -= 1
                            lists[depth, i, 0] = move
                            lists[depth, i, 1] = after
                            lists[depth, i, 2] = answers
                            lists[depth, i, 3] = promise
                            lists[depth, i, 4] = product
                            count += 1
                        if known:
                            value = best
                        else:
                            best = -100
                            if ask_ahead:
                                kept = 0
                                store = near if n + 1 >= near_from else table
                                rest_bits = NEAR_REST_BITS if n + 1 >= near_from else REST_BITS
                                for i in range(count):
                                    product = lists[depth, i, 4]
                                    place = (product >> rest_bits) << ONE
                                    rest = product & ((ONE << rest_bits) - ONE)
                                    entry = store[place]
                                    if entry == ZERO or (entry >> VALUE_BITS) != rest:
                                        entry = store[place + ONE]
                                        if (entry >> VALUE_BITS) != rest:
                                            entry = ZERO
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
                                    if kept != i:
                                        lists[depth, kept, 0] = lists[depth, i, 0]
                                        lists[depth, kept, 1] = lists[depth, i, 1]
                                        lists[depth, kept, 2] = lists[depth, i, 2]
                                    kept += 1
                                count = kept
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
                            against = lists[depth, 0, 1]
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

                # Back from a move: is the question answered?
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
                    against = lists[depth, tried, 1]
                    moves = lists[depth, tried, 2]
                    n += 1
                    depth += 1
                    entering = True
                    continue
                if in_table:
                    store = near if n >= near_from else table
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
                        # The first place of two keeps what cost more work, the second the latest; in the small table
                        # the first is for the latest, the second for the one before.
                        entry = store[place]
                        if n >= near_from or work >= (entry >> U(16)) & MOST_WORK:
                            store[place + ONE] = entry
                            slot = place
                    if best > alpha:
                        least = max(least, best)
                        hint = lowest(lists[depth, tried, 0]) // STRIDE
                        key = frames[depth, 0] + frames[depth, 1]
                        if n <= mirror_until and mirror(key, stride, columns) < key:
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
