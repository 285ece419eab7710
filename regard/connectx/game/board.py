"""One board, immutable, with conversions from and to move strings, Kaggle's list, drawings and bits.

Columns count from 0 in code and from 1 in move strings (a to z after 9). Players are 1 and 2, as on Kaggle; 1 begins.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from regard.connectx.game.bitboard import Shape, board_shape, has_line, mirror
from regard.connectx.game.board_text import COLUMN_SIGNS, plain_text, rich_text
from regard.connectx.game.reachability import check_stones, find_moves
from regard.numba_functions import uncompiled

_has_line = uncompiled(has_line)  # for a single call Python is faster than the conversion to machine integers


class Board:
    """A position, and the moves that led to it if they are known. Boards with equal stones are equal.

    rows, columns   size of the board
    inarow          number of stones in a line that win

    >>> board = Board().play(3).play(3)
    >>> board == Board.from_moves("44"), board.turn, board.moves
    (True, 1, '44')
    >>> print(Board.from_moves("4455", rows=4))
    . . . . . . .
    . . . . . . .
    . . . O O . .
    . . . X X . .
    >>> Board.from_moves("44556677").winner
    Traceback (most recent call last):
    ValueError: cannot play '7' as move 8 of '44556677': the game is over, player 1 has won
    """

    __slots__ = ("_history", "mask", "position", "shape", "stones", "winner")
    position: int  # stones of the side to move
    mask: int  # all stones
    shape: Shape
    stones: int  # number of stones
    winner: int | None  # 1, 2 or None
    _history: tuple[int, ...] | None

    def __init__(self, rows: int = 6, columns: int = 7, inarow: int = 4) -> None:
        self.position = self.mask = self.stones = 0
        self.shape, self.winner, self._history = board_shape(rows, columns, inarow), None, ()

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.shape.rows

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.shape.columns

    @property
    def inarow(self) -> int:
        """Number of stones in a line that win."""
        return self.shape.inarow

    @property
    def turn(self) -> int:
        """Player to move: 1 or 2."""
        return 1 + self.stones % 2

    @property
    def full(self) -> bool:
        """Whether every square is occupied."""
        return self.mask == self.shape.full

    @property
    def over(self) -> bool:
        """Whether the game has ended, by a line or because the board is full."""
        return self.winner is not None or self.mask == self.shape.full

    @property
    def legal(self) -> list[int]:
        """Columns that may be played, from 0; empty when the game is over.

        >>> Board.from_moves("444444").legal
        [0, 1, 2, 4, 5, 6]
        """
        if self.winner is not None:
            return []
        rows, columns, _, stride, _, _ = self.shape
        top = self.mask >> (rows - 1)
        return [column for column in range(columns) if not top >> column * stride & 1]

    def play(self, column: int) -> "Board":
        """Return the board after a stone in this column, counted from 0.

        >>> Board().play(7)
        Traceback (most recent call last):
        ValueError: column must be 0 to 6 in code (1 to 7 in move strings), got 7
        """
        size = self.shape
        try:
            inside = 0 <= column < size.columns
            place = 1 << column * size.stride
        except TypeError:
            raise TypeError(f"column must be an int, got {column!r}") from None
        except ValueError:
            inside = False
        if not inside:
            raise ValueError(
                f"column must be 0 to {size.columns - 1} in code (1 to {size.columns} in move strings), got {column}"
            )
        if self.winner is not None:
            raise ValueError(f"the game is over, player {self.winner} has won")
        mask = self.mask | (self.mask + place)
        if mask & ~size.full:
            if self.full:
                raise ValueError("the game is over, the board is full")
            sign = COLUMN_SIGNS[column]
            raise ValueError(f"column {column} is full ({sign} in move strings); play one of {self.legal}")
        mine = self.position | mask ^ self.mask
        winner = self.turn if _has_line(mine, size) else None
        history = None if self._history is None else (*self._history, int(column))
        return _new_board(mask ^ mine, mask, size, winner, history, self.stones + 1)

    # Conversions

    @classmethod
    def from_moves(cls, moves: str | Iterable[int], rows: int = 6, columns: int = 7, inarow: int = 4) -> "Board":
        """Return the board after these moves: a string with columns from 1, or integers with columns from 0.

        >>> Board.from_moves("4 4 5") == Board.from_moves([3, 3, 4])
        True
        """
        board = cls(rows, columns, inarow)
        if not isinstance(moves, str):
            for column in moves:
                board = board.play(column)
            return board
        text = "".join(moves.split()).lower()
        for number, sign in enumerate(text, 1):
            try:
                column = COLUMN_SIGNS.index(sign)
                if column >= columns:
                    raise ValueError(f"there are only columns 1 to {COLUMN_SIGNS[columns - 1]}")
                board = board.play(column)
            except ValueError as error:
                reason = "columns are written 1 to 9, then a to z" if sign not in COLUMN_SIGNS else str(error)
                raise ValueError(f"cannot play {sign!r} as move {number} of {text!r}: {reason}") from None
        return board

    @classmethod
    def from_kaggle(
        cls, board: Sequence[int], rows: int = 6, columns: int = 7, inarow: int = 4, *, check: bool = True
    ) -> "Board":
        """Return the board of Kaggle's flat list: row 0 on top, 0 for empty, 1 and 2 for the players.

        `check=False` skips the check that the board is possible, for lists that come from a running game.

        >>> Board.from_kaggle([0, 0, 0, 2, 1, 0], rows=2, columns=3).moves
        '21'
        """
        size = board_shape(rows, columns, inarow)
        if len(board) != rows * columns:
            raise ValueError(f"a board of {rows} × {columns} has {rows * columns} squares, got {len(board)}")
        stones = [0, 0, 0]
        for square, owner in enumerate(board):
            if owner not in (0, 1, 2):
                raise ValueError(f"squares must be 0, 1 or 2, got {owner!r} at index {square}")
            stones[owner] |= 1 << (square % columns) * size.stride + rows - 1 - square // columns
        return _from_stones(stones[1], stones[2], size, check)

    @classmethod
    def from_text(cls, text: str, inarow: int = 4) -> "Board":
        """Return the board that is drawn with . X O, top row first; the drawing determines the size.

        Frames, spaces and a line of column numbers are ignored, so the output of `print(board)` and of the terminal can
        be read back. The signs x, o, 1, 2, _ and 0 are accepted as well.

        >>> Board.from_text(". . . \\n . O . \\n . X X").turn
        2
        """
        lines = []
        for row in text.splitlines():
            signs = [sign for sign in row if sign.isalnum() or sign in "._·"]
            if signs and [sign.lower() for sign in signs] != list(COLUMN_SIGNS[: len(signs)]):
                lines.append(signs)
        owner = {"X": 1, "x": 1, "1": 1, "O": 2, "o": 2, "2": 2, ".": 0, "_": 0, "0": 0, "·": 0}
        if not lines:
            raise ValueError("a drawn board must have lines of . X O, got none")
        for line in lines:
            unknown = [sign for sign in line if sign not in owner]
            if unknown:
                raise ValueError(f"a drawn board may contain only the signs . X O, got {unknown[0]!r}")
            if len(line) != len(lines[0]):
                raise ValueError(
                    f"the lines of a drawn board must be of one length, got {len(lines[0])} and {len(line)}"
                )
        return cls.from_kaggle([owner[s] for line in lines for s in line], len(lines), len(lines[0]), inarow)

    @classmethod
    def from_bits(
        cls, position: int, mask: int, rows: int = 6, columns: int = 7, inarow: int = 4, *, check: bool = True
    ) -> "Board":
        """Return the board with these bits: the stones of the side to move, and all stones."""
        size = board_shape(rows, columns, inarow)
        position, mask = int(position), int(mask)
        if position & ~mask or mask & ~size.full or mask < 0:
            raise ValueError(
                "position must be a subset of mask, and mask a subset of the board's squares "
                "(regard.connectx.game.bitboard describes the bits)"
            )
        players = (position ^ mask, position) if mask.bit_count() % 2 else (position, position ^ mask)
        return _from_stones(*players, size, check)

    def kaggle(self) -> list[int]:
        """Return Kaggle's flat list: row 0 on top, 0 for empty, 1 and 2 for the players.

        >>> sum(Board.from_moves("44").kaggle())
        3
        """
        rows, columns, _, stride, _, _ = self.shape
        first = self._players[0]
        squares = [column * stride + row for row in range(rows - 1, -1, -1) for column in range(columns)]
        return [(self.mask >> at & 1) * (2 - (first >> at & 1)) for at in squares]

    @property
    def moves(self) -> str:
        """Moves that led to this board; if they are not known, one possible sequence of moves."""
        if self._history is None:
            self._history = find_moves(*self._players, self.shape)
        return "".join(COLUMN_SIGNS[column] for column in self._history)

    @property
    def last(self) -> int | None:
        """Column of the last move, or None if it is not known."""
        return self._history[-1] if self._history else None

    def mirror(self) -> "Board":
        """Return the board with left and right exchanged.

        >>> Board.from_moves("112").mirror().moves
        '776'
        """
        history = None if self._history is None else tuple(self.columns - 1 - column for column in self._history)
        position, mask = mirror(self.position, self.shape), mirror(self.mask, self.shape)
        return _new_board(position, mask, self.shape, self.winner, history, self.stones)

    def undo(self, moves: int = 1) -> "Board":
        """Return the board this many moves ago."""
        if not 0 <= moves <= self.stones:
            raise ValueError(f"moves must be 0 to {self.stones}, the moves played so far, got {moves}")
        played = [COLUMN_SIGNS.index(sign) for sign in self.moves]
        return Board.from_moves(played[: len(played) - moves], self.rows, self.columns, self.inarow)

    def text(self) -> str:
        """Return the board drawn with . X O, top row first."""
        return plain_text(self.kaggle(), self.columns)

    __str__ = text

    def __rich__(self) -> Any:
        winning = 0 if self.winner is None else self.position ^ self.mask
        return rich_text(self.kaggle(), self.shape, self.last, winning)

    def __repr__(self) -> str:
        rows, columns, inarow = self.shape[:3]
        size = "" if (rows, columns, inarow) == (6, 7, 4) else f", {rows}, {columns}, {inarow}"
        if self._history is None:
            return f"Board.from_bits({self.position}, {self.mask}{size})"
        return f"Board.from_moves({self.moves!r}{size})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Board):
            return NotImplemented
        return self.position == other.position and self.mask == other.mask and self.shape == other.shape

    def __hash__(self) -> int:
        return hash((self.position, self.mask, self.shape))

    def __reduce__(self) -> Any:
        return _new_board, (self.position, self.mask, self.shape, self.winner, self._history, self.stones)

    @property
    def _players(self) -> tuple[int, int]:
        """Stones of player 1 and of player 2."""
        other = self.position ^ self.mask
        return (self.position, other) if self.stones % 2 == 0 else (other, self.position)


def _new_board(
    position: int, mask: int, size: Shape, winner: int | None, history: tuple[int, ...] | None, stones: int
) -> Board:
    """Return a board without the checks of the constructors."""
    board = Board.__new__(Board)
    board.position, board.mask, board.shape = position, mask, size
    board.winner, board._history, board.stones = winner, history, stones
    return board


def _from_stones(first: int, second: int, size: Shape, check: bool) -> Board:
    """Return the board with these stones of players 1 and 2; with `check`, raise a ValueError if it is impossible."""
    if check:
        check_stones(first, second, size)
    mask = first | second
    stones = mask.bit_count()
    winner = 1 if _has_line(first, size) else 2 if _has_line(second, size) else None
    history = find_moves(first, second, size) if check else None
    return _new_board(second if stones % 2 else first, mask, size, winner, history, stones)
