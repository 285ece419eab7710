"""The exact score of a position: a search that proves it, compiled for one size of board.

The score is narrowed by yes-or-no questions, "is it more than alpha?", each answered by a search that stops as soon as
one move proves yes, or none can. What makes that fast:

- A position is entered only when nobody wins at once: a move that allows an immediate win is never tried, and one
  that leaves the other side nothing but such moves wins without being searched.
- Moves that make many threats come first, then those in the middle.
- A transposition table keeps a lower and an upper bound of each position. Its entries are facts, true whatever the
  question was, so they serve all later questions. Before a move is searched, the table is asked about all of them.
- Zugzwang. A player who always answers on top of the other's stone gets every second cell, so the other gets only the
  cells between, and whatever the columns with an odd number of free cells give. If these cells and the stones there
  are make no line, the side to move cannot win. If besides that a threat of the answering side lies in a cell that it
  is sure to get, the side to move must lose, at the latest when everything else is full. Both are seen without search.

A player's score is 1 plus the stones left to the winner after the winning one, negative for a loss, 0 for a draw. With
`n` stones on the board a win by the next stone is worth `(cells + 1 - n) // 2`.
"""

# mypy: disable-error-code="assignment,arg-type,unreachable"
# (numba infers the types of the compiled function by rules of its own)

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from .threats import ONE, ZERO, in_line, lowest, mirror, popcount, prefetch, rank, threats

U = np.uint64
NO_GUESS = 99
IS_OVER = 100  # instead of a score, when somebody has a line
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
    ask_ahead_until = cells * 3 // 4
    column_bits = (1 << rows) - 1

    @numba.njit(error_model="numpy", cache=True)
    def solve(  # type: ignore[no-untyped-def]
        position, mask, guess, table, frames, lists, weights, book, layers, ways, choose, counters
    ):
        BOTTOM, BOARD, SPARE = U(bottom_row), U(all_cells), U(spare_row)
        FIRST, SECOND, NEAR_TOP = U(first_cells), U(all_cells & ~first_cells), U(near_top)
        FACTOR, KEY, STRIDE = U(factor), U(key_mask), U(stride)
        REST_BITS = U(key_bits + 1) - lowest(U(table.size))
        REST, VALUE_BITS = (ONE << REST_BITS) - ONE, U(64) - REST_BITS
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
        lower = -((cells - 2 - stones) // 2)
        upper = (cells - 1 - stones) // 2
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
                    else:
                        # Zugzwang, as the module's docstring says. `odd` are the free cells of the columns with an odd
                        # number of them: there the one who always answers runs out of answers when the column is full.
                        odd = (SPARE - ((m + BOTTOM) & SECOND)) & BOARD
                        if alpha >= 0 and horizon == 3:
                            topped = (m + BOTTOM) & SECOND & NEAR_TOP
                            if popcount(topped) & ONE == ZERO:
                                mine = p | (BOARD & ~m & FIRST & ~odd) | (odd & SECOND) | ((SPARE - topped) & BOARD)
                                if not in_line(mine, stride, inarow):
                                    value = alpha
                                    known = True
                        elif (cells - n) & 1 == 0:
                            worst = 0
                            if alpha < 0:
                                sure = against & SECOND & ~odd
                                if sure:
                                    for row in range(rows):
                                        if sure & (BOTTOM << U(row)):
                                            worst = -((rows + 1 - row) // 2)
                                            break
                            if worst <= alpha:
                                mine = p | (BOARD & ~m & FIRST) | odd
                                if not in_line(mine, stride, inarow):
                                    value = worst
                                    known = True
                        else:
                            sure = against & FIRST & odd
                            while sure != ZERO:
                                cell = sure & (~sure + ONE)
                                at = lowest(cell)
                                column = at // STRIDE
                                row = np.int64(at - column * STRIDE)
                                its_column = U(column_bits) << (column * STRIDE)
                                sure &= ~its_column
                                worst = -((rows + 1 - row) // 2)
                                if worst <= alpha:
                                    free = BOARD & ~m
                                    mine = p | (free & FIRST & ~odd) | (odd & ~its_column)
                                    mine |= free & SECOND & its_column & (cell - ONE)
                                    if not in_line(mine, stride, inarow):
                                        value = worst
                                        known = True
                                        break

                    if not known and n < layers.size and layers[n] >= 0:
                        score = book[layers[n] + rank(p, m, n, stride, columns, ways, choose)]
                        if score != 0:
                            value = np.int64(score) - 128
                            known = True

                    hint = U(15)
                    if not known and in_table:
                        key = p + m
                        if n <= mirror_until:
                            key = min(key, mirror(key, stride, columns))
                        product = (key * FACTOR) & KEY
                        place = (product >> REST_BITS) << ONE
                        rest = product & REST
                        entry = table[place]
                        if entry == ZERO or (entry >> VALUE_BITS) != rest:
                            entry = table[place + ONE]
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
                            product = ZERO
                            if ask_ahead:
                                key = (p ^ m) + m2
                                if n < mirror_until:
                                    key = min(key, mirror(key, stride, columns))
                                product = (key * FACTOR) & KEY
                                prefetch(table, (product >> REST_BITS) << ONE)
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
                                for i in range(count):
                                    product = lists[depth, i, 4]
                                    place = (product >> REST_BITS) << ONE
                                    rest = product & REST
                                    entry = table[place]
                                    if entry == ZERO or (entry >> VALUE_BITS) != rest:
                                        entry = table[place + ONE]
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
                    entry = table[place]
                    slot = place
                    same = entry != ZERO and (entry >> VALUE_BITS) == rest
                    if not same:
                        entry = table[place + ONE]
                        same = entry != ZERO and (entry >> VALUE_BITS) == rest
                        slot = place + ONE
                    if same:
                        least = np.int64(entry & U(63)) - 32
                        most = np.int64((entry >> U(6)) & U(63)) - 32
                        hint = (entry >> U(12)) & U(15)
                        work = max(work, (entry >> U(16)) & MOST_WORK)
                    else:
                        # The first place of two keeps what cost more work, the second the latest.
                        entry = table[place]
                        if work >= (entry >> U(16)) & MOST_WORK:
                            table[place + ONE] = entry
                            slot = place
                    if best > alpha:
                        least = max(least, best)
                        if n > mirror_until:
                            hint = min(lowest(lists[depth, tried, 0]) // STRIDE, U(15))
                    else:
                        most = min(most, best)
                    table[slot] = (
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
