"""Check whether a board can occur in a game, and find moves that lead to it.

Stones must not float, player 1 has as many stones as player 2 or one more, at most one player has a line, and that
player moved last. These conditions are not sufficient: with X O X O from the bottom of the only column played, O cannot
have moved second. So `find_moves` searches for an order of moves, from the last stone back to the first: each step
removes the top stone of a column, of the two players in turn. Only the last move can complete a line, so lines need not
be looked for before it.
"""

from regard.connectx.game.bitboard import Shape, has_line
from regard.numba_functions import uncompiled

MAX_STEPS = 3_000_000  # search steps, which take some seconds; boards of usual size never need as many

_has_line = uncompiled(has_line)


def check_stones(first: int, second: int, shape: Shape) -> None:
    """Raise a ValueError if stones of players 1 and 2 float, or if their numbers or lines are impossible."""
    mask = first | second
    floating = mask & ~(mask << 1 | shape.bottom)
    if floating:
        column, row = divmod(floating.bit_length() - 1, shape.stride)
        raise ValueError(
            f"impossible board: the stone in column {column + 1}, row {row + 1} from below (both from 1), floats"
        )
    ones, twos = first.bit_count(), second.bit_count()
    if ones not in (twos, twos + 1):
        raise ValueError(
            f"impossible board: player 1 begins and has as many stones as player 2 or one more, got {ones} and {twos}"
        )
    lines = [_has_line(stones, shape) for stones in (first, second)]
    if all(lines):
        raise ValueError(f"impossible board: both players have {shape.inarow} in a row")
    for player, won in ((1, lines[0]), (2, lines[1])):
        if won and player != 2 - (ones + twos) % 2:
            raise ValueError(
                f"impossible board: player {player} has {shape.inarow} in a row, but player {3 - player} moved last"
            )


def find_moves(first: int, second: int, shape: Shape) -> tuple[int, ...]:
    """Return moves, columns from 0, that lead to the board with these stones of players 1 and 2."""
    mask = first | second
    if not mask:
        return ()
    last = 2 - mask.bit_count() % 2
    columns = []
    for column in range(shape.columns):
        squares = [1 << column * shape.stride + row for row in range(shape.rows)]
        columns.append([1 if square & first else 2 for square in squares if square & mask])
    stones = (first, second)[last - 1]
    won = _has_line(stones, shape)
    for column, players in enumerate(columns):
        if not players or players[-1] != last:
            continue
        top = 1 << column * shape.stride + len(players) - 1
        if won and _has_line(stones ^ top, shape):
            continue
        earlier = _order([p[:-1] if at == column else p for at, p in enumerate(columns)], 3 - last)
        if earlier is not None:
            return (*earlier, column)
    raise ValueError("impossible board: no order of moves leads to it")


def _order(columns: list[list[int]], last: int) -> tuple[int, ...] | None:
    """Return moves after which the columns hold these stones, the last move by player `last`; None if there are none.

    A depth-first search that removes stones, with the visited column heights in a set.
    """
    heights = [len(column) for column in columns]
    visited: set[tuple[int, ...]] = set()
    removed: list[int] = []
    next_candidate = [0]
    steps = 0
    while any(heights):
        steps += 1
        if steps > MAX_STEPS:
            raise ValueError("could not determine whether a game leads to this board; give its moves instead")
        player = last if len(removed) % 2 == 0 else 3 - last
        # The tallest columns first: with another order the search reaches more dead ends.
        candidates = sorted(range(len(columns)), key=lambda column: -heights[column])
        for number in range(next_candidate[-1], len(candidates)):
            column = candidates[number]
            height = heights[column]
            if height and columns[column][height - 1] == player:
                heights[column] -= 1
                if tuple(heights) in visited:
                    heights[column] += 1
                    continue
                visited.add(tuple(heights))
                next_candidate[-1] = number + 1
                removed.append(column)
                next_candidate.append(0)
                break
        else:
            if not removed:
                return None
            next_candidate.pop()
            heights[removed.pop()] += 1
    return tuple(reversed(removed))
