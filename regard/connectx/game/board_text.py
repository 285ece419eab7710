"""Boards as text: plain, and with colours, a frame and marks for the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.connectx.game.bitboard import Shape

if TYPE_CHECKING:
    from rich.text import Text

COLUMN_SIGNS = "123456789abcdefghijklmnopqrstuvwxyz"  # names of columns in move strings
PLAYER_SIGNS = ".XO"
STYLES = ("dim", "bold yellow", "bold red")


def plain_text(squares: Sequence[int], columns: int) -> str:
    """Return the squares (0 empty, 1 and 2 for the players, top row first) drawn with . X O.

    >>> print(plain_text([0, 2, 1, 1], 2))
    . O
    X X
    """
    rows = (squares[start : start + columns] for start in range(0, len(squares), columns))
    return "\n".join(" ".join(PLAYER_SIGNS[square] for square in row) for row in rows)


def rich_text(squares: Sequence[int], shape: Shape, last_column: int | None, winning_stones: int) -> "Text":
    """Return a framed board with column numbers: the last stone in round brackets, winning lines in square brackets.

    `winning_stones` contains all stones of the player who has won, or 0.

    >>> from regard.connectx import Board
    >>> print(Board.from_moves("1212121", rows=4, columns=3).__rich__())
      1  2  3
    │[X] ·  · │
    │[X] O  · │
    │[X] O  · │
    │[X] O  · │
    └─────────┘
    """
    from rich.text import Text

    columns = shape.columns
    line = _line_squares(winning_stones, shape)
    last = -1
    if last_column is not None:
        last = next(square for square in range(last_column, len(squares), columns) if squares[square])
    text = Text(" " + "".join(f" {sign} " for sign in COLUMN_SIGNS[:columns]).rstrip() + "\n", style="none")
    for start in range(0, len(squares), columns):
        text.append("│", style="dim")
        for square in range(start, start + columns):
            owner = squares[square]
            left, right = "[]" if square in line else "()" if square == last else "  "
            text.append(f"{left}{'·XO'[owner]}{right}", style=STYLES[owner])
        text.append("│\n", style="dim")
    text.append("└" + "───" * columns + "┘", style="dim")
    return text


def _line_squares(stones: int, shape: Shape) -> set[int]:
    """Return the squares of all lines of these stones, numbered row by row from the top."""
    bits = 0
    for step in (1, shape.stride, shape.stride + 1, shape.stride - 1):
        starts = stones
        for _ in range(shape.inarow - 1):
            starts &= starts >> step
        for _ in range(shape.inarow):
            bits |= starts
            starts <<= step
    places = (bit for bit in range(shape.stride * shape.columns) if bits >> bit & 1)
    return {(shape.rows - 1 - bit % shape.stride) * shape.columns + bit // shape.stride for bit in places}
