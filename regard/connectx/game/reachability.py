"""Which boards a game can lead to.

Stones must not float, player 1 has as many as player 2 or one more, only one of them has a line, and that one moved
last. That is not yet enough: with X O X O at the bottom of the only column played, X cannot have been the second
stone. So a way is looked for, from the last stone back to the first: each step takes the top stone of some column, in
turn of one player and the other. A line can only be there after the last move; before it there is none to look for.
"""

from typing import TYPE_CHECKING

from regard.compiled import uncompiled
from regard.connectx.game.bitboard import Shape, aligned

if TYPE_CHECKING:
    from regard.connectx.game.board import Board

STEPS = 3_000_000  # taken at most to find a way, some seconds; boards of usual size never need them

_aligned = uncompiled(aligned)


def check_stones(first: int, second: int, size: Shape) -> None:
    """Raise a ValueError that says what is impossible about stones of players 1 and 2."""
    mask = first | second
    above_empty = mask & ~(mask << 1 | size.bottom)
    if above_empty:
        at = above_empty.bit_length() - 1
        column, row = at // size.stride, at % size.stride
        raise ValueError(
            f"impossible board: the stone in column {column + 1}, row {row + 1} from below (both from 1), floats"
        )
    ones, twos = first.bit_count(), second.bit_count()
    if ones not in (twos, twos + 1):
        raise ValueError(
            f"impossible board: player 1 begins and has as many stones as player 2 or one more, got {ones} and {twos}"
        )
    lines = [_aligned(stones, size) for stones in (first, second)]
    if all(lines):
        raise ValueError(f"impossible board: both players have {size.inarow} in a row")
    for player, won in ((1, lines[0]), (2, lines[1])):
        if won and player != 2 - (ones + twos) % 2:
            raise ValueError(
                f"impossible board: player {player} has {size.inarow} in a row, but player {3 - player} moved last"
            )


def way_to(board: "Board") -> tuple[int, ...]:
    """Moves, columns from 0, that lead to the board."""
    size = board.shape
    if not board.stones:
        return ()
    last = 2 - board.stones % 2
    marks = board.kaggle()
    grid = [
        [marks[(size.rows - 1 - row) * size.columns + column] for row in range(size.rows)]
        for column in range(size.columns)
    ]
    columns = [[mark for mark in column if mark] for column in grid]
    mine = board.position ^ board.mask  # of the player who moved last
    for column, stones in enumerate(columns):
        if not stones or stones[-1] != last:
            continue
        top = 1 << column * size.stride + len(stones) - 1
        if board.winner is not None and _aligned(mine ^ top, size):
            continue
        before = _order([s[:-1] if at == column else s for at, s in enumerate(columns)], 3 - last)
        if before is not None:
            return (*before, column)
    raise ValueError("impossible board: no order of moves leads to it")


def _order(columns: list[list[int]], last: int) -> tuple[int, ...] | None:
    """Moves that fill the columns so, the last by that player, found backwards; None if there are none."""
    heights = [len(column) for column in columns]
    seen: set[tuple[int, ...]] = set()
    taken: list[int] = []
    tried = [0]
    steps = 0
    while True:
        if not any(heights):
            return tuple(reversed(taken))
        steps += 1
        if steps > STEPS:
            raise ValueError("could not tell whether a game leads to this board; give its moves instead")
        player = last if len(taken) % 2 == 0 else 3 - last
        found = False
        # The tallest columns first: leaving them for later is what blocks.
        order = sorted(range(len(columns)), key=lambda column: -heights[column])
        for number in range(tried[-1], len(order)):
            column = order[number]
            height = heights[column]
            if height and columns[column][height - 1] == player:
                heights[column] -= 1
                if tuple(heights) in seen:
                    heights[column] += 1
                    continue
                seen.add(tuple(heights))
                tried[-1] = number + 1
                taken.append(column)
                tried.append(0)
                found = True
                break
        if not found:
            if not taken:
                return None
            tried.pop()
            heights[taken.pop()] += 1
