"""One board: a value that never changes, in all the forms in which people write boards down.

Columns count from 0 in code and from 1 in move strings (a to z after 9). Players are 1 and 2, as on Kaggle; 1 begins.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from regard.compiled import uncompiled
from regard.connectx.game.bitboard import Shape, aligned, mirrored, shape

SIGNS = "123456789abcdefghijklmnopqrstuvwxyz"  # of columns in move strings
STONES = ".XO"

_aligned = uncompiled(aligned)  # one call on Python's integers is quicker than the way into machine code


class Board:
    """A position, with the moves that led to it where they are known. Equal boards have equal stones.

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

    __slots__ = ("_history", "_shape", "_stones", "_winner", "mask", "position")
    position: int
    mask: int
    _shape: Shape
    _winner: int | None
    _history: tuple[int, ...] | None
    _stones: int

    def __init__(self, rows: int = 6, columns: int = 7, inarow: int = 4) -> None:
        _fill(self, 0, 0, shape(rows, columns, inarow), None, (), 0)

    @property
    def rows(self) -> int:
        """How many squares a column has."""
        return self._shape.rows

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return self._shape.columns

    @property
    def inarow(self) -> int:
        """How many stones in a row win."""
        return self._shape.inarow

    @property
    def shape(self) -> Shape:
        """The size, with the numbers that follow from it."""
        return self._shape

    @property
    def stones(self) -> int:
        """How many stones lie on the board."""
        return self._stones

    @property
    def turn(self) -> int:
        """Whose turn it is: 1 or 2."""
        return 1 + self._stones % 2

    @property
    def winner(self) -> int | None:
        """Who has won: 1, 2, or None."""
        return self._winner

    @property
    def full(self) -> bool:
        """Whether no square is left."""
        return self.mask == self._shape.full

    @property
    def over(self) -> bool:
        """Whether the game has ended, by a line or for want of squares."""
        return self._winner is not None or self.mask == self._shape.full

    @property
    def legal(self) -> list[int]:
        """The columns that may be played, from 0; none when the game is over.

        >>> Board.from_moves("444444").legal
        [0, 1, 2, 4, 5, 6]
        """
        if self._winner is not None:
            return []
        rows, columns, _, stride, _, _ = self._shape
        top = self.mask >> (rows - 1)
        return [column for column in range(columns) if not top >> column * stride & 1]

    def play(self, column: int) -> "Board":
        """The board after a stone in this column, counted from 0.

        >>> Board().play(7)
        Traceback (most recent call last):
        ValueError: column must be 0 to 6 in code (1 to 7 in move strings), got 7
        """
        size = self._shape
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
        if self._winner is not None:
            raise ValueError(f"the game is over, player {self._winner} has won")
        mask = self.mask | (self.mask + place)
        if mask & ~size.full:
            if self.full:
                raise ValueError("the game is over, the board is full")
            raise ValueError(f"column {column} is full ({SIGNS[column]} in move strings); play one of {self.legal}")
        mine = self.position | mask ^ self.mask
        won = self.turn if _aligned(mine, size) else None
        history = None if self._history is None else (*self._history, int(column))
        return _fill(Board.__new__(Board), mask ^ mine, mask, size, won, history, self._stones + 1)

    # Other forms

    @classmethod
    def from_moves(cls, moves: str | Iterable[int], rows: int = 6, columns: int = 7, inarow: int = 4) -> "Board":
        """The board after these moves: a string with columns from 1, or integers with columns from 0.

        >>> Board.from_moves("4 4 5") == Board.from_moves([3, 3, 4])
        True
        """
        board = cls(rows, columns, inarow)
        if not isinstance(moves, str):
            for column in moves:
                board = board.play(column)
            return board
        written = "".join(moves.split()).lower()
        for number, sign in enumerate(written, 1):
            try:
                column = SIGNS.index(sign)
                if column >= columns:
                    raise ValueError(f"there are only columns 1 to {SIGNS[columns - 1]}")
                board = board.play(column)
            except ValueError as error:
                what = "columns are written 1 to 9, then a to z" if sign not in SIGNS else str(error)
                raise ValueError(f"cannot play {sign!r} as move {number} of {written!r}: {what}") from None
        return board

    @classmethod
    def from_kaggle(
        cls, board: Sequence[int], rows: int = 6, columns: int = 7, inarow: int = 4, *, check: bool = True
    ) -> "Board":
        """The board that Kaggle's flat list means: row 0 on top, 0 for empty, 1 and 2 for the players.

        `check=False` believes the list (a game's own environment made it) and costs less.

        >>> Board.from_kaggle([0, 0, 0, 2, 1, 0], rows=2, columns=3).moves
        '21'
        """
        size = shape(rows, columns, inarow)
        if len(board) != rows * columns:
            raise ValueError(f"a board of {rows} × {columns} has {rows * columns} squares, got {len(board)}")
        players = [0, 0, 0]
        for at, value in enumerate(board):
            if value not in (0, 1, 2):
                raise ValueError(f"squares must be 0, 1 or 2, got {value!r} at place {at}")
            players[value] |= 1 << (at % columns) * size.stride + rows - 1 - at // columns
        return _from_stones(players[1], players[2], size, check)

    @classmethod
    def from_text(cls, text: str, inarow: int = 4) -> "Board":
        """The board that is drawn with . X O, top row first; its size is that of the drawing.

        Frames, spaces and a line of column numbers do not disturb, so what `print(board)` and the terminal show can
        be read again; x, o, 1, 2 and _, 0 are understood as well.

        >>> Board.from_text(". . . \\n . O . \\n . X X").turn
        2
        """
        lines = []
        for written in text.splitlines():
            signs = [sign for sign in written if sign.isalnum() or sign in "._·"]
            if signs and [sign.lower() for sign in signs] != list(SIGNS[: len(signs)]):
                lines.append(signs)
        meaning = {"X": 1, "x": 1, "1": 1, "O": 2, "o": 2, "2": 2, ".": 0, "_": 0, "0": 0, "·": 0}
        if not lines:
            raise ValueError("a drawn board has lines of . X O, got none")
        for line in lines:
            unknown = [sign for sign in line if sign not in meaning]
            if unknown:
                raise ValueError(f"a drawn board has the signs . X O, got {unknown[0]!r}")
            if len(line) != len(lines[0]):
                raise ValueError(f"the lines of a drawn board are of one length, got {len(lines[0])} and {len(line)}")
        return cls.from_kaggle([meaning[s] for line in lines for s in line], len(lines), len(lines[0]), inarow)

    @classmethod
    def from_bits(
        cls, position: int, mask: int, rows: int = 6, columns: int = 7, inarow: int = 4, *, check: bool = True
    ) -> "Board":
        """The board of these bits: stones of the side to move, and all stones."""
        size = shape(rows, columns, inarow)
        position, mask = int(position), int(mask)
        if position & ~mask or mask & ~size.full or mask < 0:
            raise ValueError(
                "position must be part of mask, and mask of the board's squares (see regard.connectx.game.bitboard)"
            )
        if mask.bit_count() % 2:
            return _from_stones(position ^ mask, position, size, check)
        return _from_stones(position, position ^ mask, size, check)

    def kaggle(self) -> list[int]:
        """Kaggle's flat list.

        >>> sum(Board.from_moves("44").kaggle())
        3
        """
        rows, columns, _, stride, _, _ = self._shape
        first = self.position if self._stones % 2 == 0 else self.position ^ self.mask
        squares = [column * stride + row for row in range(rows - 1, -1, -1) for column in range(columns)]
        return [(self.mask >> at & 1) * (2 - (first >> at & 1)) for at in squares]

    @property
    def moves(self) -> str:
        """The moves that led here; where the board came without them, some that could have."""
        if self._history is None:
            from regard.connectx.game.reachability import way_to

            self._history = way_to(self)
        return "".join(SIGNS[column] for column in self._history)

    @property
    def last(self) -> int | None:
        """The column of the last move, where known."""
        return self._history[-1] if self._history else None

    def mirror(self) -> "Board":
        """Left and right exchanged.

        >>> Board.from_moves("112").mirror().moves
        '776'
        """
        history = None if self._history is None else tuple(self.columns - 1 - column for column in self._history)
        position, mask = mirrored(self.position, self._shape), mirrored(self.mask, self._shape)
        return _fill(Board.__new__(Board), position, mask, self._shape, self._winner, history, self._stones)

    def undo(self, moves: int = 1) -> "Board":
        """The board that many moves ago."""
        if not 0 <= moves <= self._stones:
            raise ValueError(f"there are {self._stones} moves to take back, got {moves}")
        played = [SIGNS.index(sign) for sign in self.moves]
        return Board.from_moves(played[: len(played) - moves], self.rows, self.columns, self.inarow)

    def text(self) -> str:
        """The board drawn with . X O, top row first."""
        squares, columns = self.kaggle(), self.columns
        rows = (squares[at : at + columns] for at in range(0, len(squares), columns))
        return "\n".join(" ".join(STONES[square] for square in row) for row in rows)

    __str__ = text

    def __rich__(self) -> Any:
        from regard.connectx.game.board_text import pretty

        return pretty(self)

    def __repr__(self) -> str:
        rows, columns, inarow = self._shape[:3]
        size = "" if (rows, columns, inarow) == (6, 7, 4) else f", {rows}, {columns}, {inarow}"
        if self._history is None:
            return f"Board.from_bits({self.position}, {self.mask}{size})"
        return f"Board.from_moves({self.moves!r}{size})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Board):
            return NotImplemented
        return self.position == other.position and self.mask == other.mask and self._shape == other._shape

    def __hash__(self) -> int:
        return hash((self.position, self.mask, self._shape))

    def __reduce__(self) -> Any:
        return _restored, (self.position, self.mask, *self._shape[:3], self._winner, self._history)


def _fill(
    board: Board,
    position: int,
    mask: int,
    size: Shape,
    winner: int | None,
    history: tuple[int, ...] | None,
    stones: int,
) -> Board:
    board.position, board.mask, board._shape = position, mask, size
    board._winner, board._history, board._stones = winner, history, stones
    return board


def _restored(
    position: int,
    mask: int,
    rows: int,
    columns: int,
    inarow: int,
    winner: int | None,
    history: tuple[int, ...] | None,
) -> Board:
    return _fill(
        Board.__new__(Board), position, mask, shape(rows, columns, inarow), winner, history, mask.bit_count()
    )  # fmt: skip


def _from_stones(first: int, second: int, size: Shape, check: bool) -> Board:
    """The board on which the players have these stones, after the checks of what is possible."""
    mask = first | second
    if check:
        from regard.connectx.game.reachability import check_stones

        check_stones(first, second, size)
    stones = mask.bit_count()
    position = second if stones % 2 else first
    winner = 1 if _aligned(first, size) else 2 if _aligned(second, size) else None
    board = _fill(Board.__new__(Board), position, mask, size, winner, None, stones)
    if check:
        board.moves  # noqa: B018 - a board that no game leads to is refused here
    return board
