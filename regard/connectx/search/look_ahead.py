"""Exact value of a position where a short look ahead decides it.

All lines of play are searched to a depth of 1, 2, 3, … moves, until the value is known or the given number of positions
has been visited. Moves that are forced, because every other move loses at once, do not count towards the depth, so
that a chain of threats is followed to its end. In an opening nothing is found; the search costs a few per cent of the
time that the network takes for the position.
"""

import numpy as np

from regard.connectx.game.bitboard import Shape, completing_squares, playable_squares, safe_moves
from regard.numba_functions import compiled

UNKNOWN = 2


@compiled
def look_ahead(position: int, mask: int, most: int, shape: Shape) -> int:
    """Return 1 (won), 0 (draw) or −1 (lost) for the side to move; UNKNOWN if `most` positions do not decide it.

    Nobody has a line on the board yet.

    >>> from regard.connectx import Board
    >>> board = Board.from_moves("4455")           # a stone next to the two makes two threats
    >>> look_ahead(board.position, board.mask, 10, board.shape)
    1
    >>> look_ahead(0, 0, 1000, board.shape) == UNKNOWN
    True
    """
    visited = np.zeros(1, np.int64)
    for depth in range(1, shape.rows * shape.columns + 1):
        value = _to_depth(position, mask, depth, visited, most, shape)
        if value != UNKNOWN or visited[0] >= most:
            return value
    return UNKNOWN


@compiled
def _to_depth(position: int, mask: int, depth: int, visited: np.ndarray, most: int, shape: Shape) -> int:
    moves = playable_squares(mask, shape)
    if moves == 0:
        return 0
    if completing_squares(position, shape) & moves:
        return 1
    safe = safe_moves(position, mask, shape)
    if safe == 0:
        return -1
    if safe & (safe - 1):  # more than one: the move is not forced
        depth -= 1
    if depth < 0 or visited[0] >= most:
        return UNKNOWN
    visited[0] += 1
    best, decided = -1, True
    while safe:
        stone = safe & -safe
        safe ^= stone
        value = _to_depth(position ^ mask, mask | stone, depth, visited, most, shape)
        if value == -1:
            return 1
        if value == UNKNOWN:
            decided = False
        elif -value > best:
            best = -value
    return best if decided else UNKNOWN
