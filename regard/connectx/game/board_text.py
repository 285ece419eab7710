"""A board in the terminal: readable without colour, clearer with it."""

from typing import TYPE_CHECKING

from regard.compiled import uncompiled
from regard.connectx.game.bitboard import aligned

if TYPE_CHECKING:
    from rich.text import Text

    from regard.connectx.game.board import Board

STYLES = {1: "bold yellow", 2: "bold red"}
SIGNS = {0: "·", 1: "X", 2: "O"}

_aligned = uncompiled(aligned)


def pretty(board: "Board") -> "Text":
    """Column numbers, a frame, the last stone in round brackets, a winning line in square ones.

    >>> from regard.connectx import Board
    >>> print(pretty(Board.from_moves("1212121", rows=4, columns=3)))
      1  2  3
    │[X] ·  · │
    │[X] O  · │
    │[X] O  · │
    │[X] O  · │
    └─────────┘
    """
    from rich.text import Text

    from regard.connectx.game.board import SIGNS as NUMBERS

    marks, columns, rows = board.kaggle(), board.columns, board.rows
    line = _line(board)
    last = None
    if board.last is not None:
        row = next(row for row in range(rows) if marks[row * columns + board.last])
        last = row * columns + board.last
    text = Text(" " + "".join(f" {NUMBERS[column]} " for column in range(columns)).rstrip() + "\n", style="none")
    for row in range(rows):
        text.append("│", style="dim")
        for at in range(row * columns, (row + 1) * columns):
            mark = marks[at]
            before, after = "[]" if at in line else "()" if at == last else "  "
            text.append(f"{before}{SIGNS[mark]}{after}", style=STYLES.get(mark, "dim"))
        text.append("│\n", style="dim")
    text.append("└" + "───" * columns + "┘", style="dim")
    return text


def _line(board: "Board") -> set[int]:
    """The places, in Kaggle's counting, of the stones that won."""
    if board.winner is None:
        return set()
    size, found = board.shape, 0
    stones = board.position ^ board.mask
    for step in (1, size.stride, size.stride + 1, size.stride - 1):
        starts = stones
        for _ in range(size.inarow - 1):
            starts &= starts >> step
        for _ in range(size.inarow):
            found |= starts
            starts <<= step
    places = (at for at in range(size.stride * size.columns) if found >> at & 1)
    return {(size.rows - 1 - at % size.stride) * size.columns + at // size.stride for at in places}
