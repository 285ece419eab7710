"""A batch of boards, for thousands of games at once.

The boards are bitboards in two arrays of 64-bit integers, and one compiled loop plays a move on each of them. The input
planes of a network are computed from the bits on request.
"""

from typing import Any

import numpy as np

from regard.connectx.game.bitboard import Shape, board_shape, fits_in_64_bits, has_line, lines_of_four
from regard.connectx.game.board import Board
from regard.numba_functions import compiled

Array = np.ndarray

RUNNING, WON, DRAWN, ILLEGAL = 0, 1, 2, 3  # status of a board, as seen by the player who made the last move


class Boards:
    """A batch of boards of one size.

    count                   number of boards
    rows, columns, inarow   size of the boards, and stones in a line that win
    auto_reset              start a new game where a game is over
    seed                    seed of `random_columns`; None draws one

    `step(columns)` plays one move on each board. Boards whose game is over do not change unless `auto_reset` is set.
    `status` is the result of the last move: 0 the game continues, 1 the player who moved has won, 2 draw, 3 the move
    was illegal (it was not played and counts as a loss).

    >>> boards = Boards(3)
    >>> boards.step([3, 3, 0]).tolist()
    [0, 0, 0]
    >>> boards.planes().shape, boards.legal().all().item(), boards[0].moves
    ((3, 2, 6, 7), True, '4')
    """

    def __init__(
        self, count: int, rows: int = 6, columns: int = 7, inarow: int = 4, *, auto_reset: bool = False,
        seed: int | None = None,
    ) -> None:  # fmt: skip
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count}")
        self.shape = checked_shape(rows, columns, inarow)
        self.auto_reset = auto_reset
        self.position = np.zeros(count, np.int64)
        self.mask = np.zeros(count, np.int64)
        self.status = np.zeros(count, np.int8)
        self._random = np.random.default_rng(seed).integers(0, 2**64, 1, np.uint64)
        self._random_columns = np.empty(count, np.int8)

    @classmethod
    def of(cls, boards: "list[Board]", *, auto_reset: bool = False, seed: int | None = None) -> "Boards":
        """Return a batch of these boards, all of one size.

        >>> Boards.of([Board.from_moves("44"), Board.from_moves("1")]).stones().tolist()
        [2, 1]
        """
        sizes = {board.shape for board in boards}
        if len(sizes) != 1:
            raise ValueError(
                f"a batch needs one or more boards of the same size, got {len(sizes)} sizes of {len(boards)} boards"
            )
        batch = cls(len(boards), *boards[0].shape[:3], auto_reset=auto_reset, seed=seed)
        for at, board in enumerate(boards):
            batch.position[at], batch.mask[at] = board.position, board.mask
            batch.status[at] = WON if board.winner is not None else DRAWN if board.over else RUNNING
        return batch

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, at: int) -> Board:
        return Board.from_bits(self.position[at], self.mask[at], *self.shape[:3], check=False)

    def step(self, columns: Any) -> Array:
        """Play these columns, counted from 0, one on each board, and return the status of each move."""
        moves = np.asarray(columns)
        if moves.shape != self.mask.shape or moves.dtype.kind not in "iu":
            raise ValueError(
                f"columns must be {len(self)} integers, one for each board, got {moves.dtype} of shape {moves.shape}"
            )
        _step(self.position, self.mask, self.status, moves, self.shape, self.auto_reset)
        return self.status

    def random_columns(self) -> Array:
        """Return a random legal column for each board (0 on full boards). The next call overwrites the array."""
        _random_columns(self.mask, self._random_columns, self._random, self.shape)
        return self._random_columns

    def reset(self, which: Any = None) -> None:
        """Start new games, on all boards or on those where `which` is True."""
        selection = slice(None) if which is None else which
        for array in (self.position, self.mask, self.status):
            array[selection] = 0

    def legal(self, out: Array | None = None) -> Array:
        """Return which columns are legal, (count, columns) of bool; if the game is over, no column is."""
        out = np.empty((len(self), self.shape.columns), np.bool_) if out is None else out
        _legal(self.mask, self.status, out, self.shape)
        return out

    def planes(self, out: Array | None = None) -> Array:
        """Return own stones and the opponent's, (count, 2, rows, columns) of float32, row 0 on top."""
        shape = (len(self), 2, self.shape.rows, self.shape.columns)
        out = np.empty(shape, np.float32) if out is None else out
        if out.shape != shape or out.dtype != np.float32 or not out.flags.c_contiguous:
            raise ValueError(f"out must be a contiguous float32 array of shape {shape}, got {out.dtype} {out.shape}")
        write_planes(self.position, self.mask, out.reshape(len(self), -1), self.shape)
        return out

    def stones(self) -> Array:
        """Return the number of stones on each board, (count,)."""
        return np.bitwise_count(self.mask).astype(np.int64)


def checked_shape(rows: int, columns: int, inarow: int) -> Shape:
    """Return the shape of a board; raise a ValueError if it does not fit into 64 bits."""
    # The integers of a shape have rows · columns bits, so a size from a damaged file is compared before it is computed.
    too_large = isinstance(rows, int) and isinstance(columns, int) and rows > 0 and (rows + 1) * columns > 64
    if too_large or not fits_in_64_bits(size := board_shape(rows, columns, inarow)):
        raise ValueError(
            f"batches and networks need (rows + 1)·columns ≤ 64, got ({rows} + 1)·{columns} = {(rows + 1) * columns}; "
            "single boards may be larger (regard.connectx.Board)"
        )
    return size


@compiled
def _step(position: Array, mask: Array, status: Array, columns: Array, shape: Shape, auto_reset: bool) -> None:
    # Two loops without branches: mispredicted branches are slow, and the compiler can vectorize the loops.
    stride, full, whole = shape.stride, shape.full, (np.int64(1) << shape.rows) - 1
    for at in range(len(mask)):
        ended = status[at] != RUNNING
        keep = -np.int64(not (ended & auto_reset))  # all bits, or none if a new game starts
        before = mask[at] & keep
        own = position[at] & keep
        column = np.int64(columns[at])
        inside = (column >= 0) & (column < shape.columns)
        bit = (before << 1 | shape.bottom) & ~before & (whole << (column * stride * inside))
        legal = inside & (bit != 0)
        played = -np.int64(legal & (not ended or auto_reset))
        mask[at] = before | (bit & played)
        position[at] = own ^ (before & played)
        status[at] = status[at] if ended & (not auto_reset) else 0 if legal else ILLEGAL
    if shape.inarow == 4:
        for at in range(len(mask)):
            won = lines_of_four(position[at] ^ mask[at], stride) != 0
            outcome = WON if won else DRAWN if mask[at] == full else RUNNING
            status[at] = max(status[at], outcome)
    else:
        for at in range(len(mask)):
            outcome = WON if has_line(position[at] ^ mask[at], shape) else DRAWN if mask[at] == full else RUNNING
            status[at] = max(status[at], outcome)


def planes_of(position: Array, mask: Array, shape: Shape) -> Array:
    """Return own stones and the opponent's, (N, 2, rows, columns) of float32, row 0 on top."""
    planes = np.empty((len(mask), 2, shape.rows, shape.columns), np.float32)
    write_planes(position, mask, planes.reshape(len(mask), -1), shape)
    return planes


def free_columns(mask: Array, shape: Shape) -> Array:
    """Return which columns are not full, (N, columns) of bool, on boards with these stones (N,).

    >>> free_columns(np.array([0b111111]), board_shape(6, 7, 4)).tolist()
    [[False, True, True, True, True, True, True]]
    """
    top = np.arange(shape.columns) * shape.stride + shape.rows - 1
    return (mask[:, None] >> top) & 1 == 0


@compiled
def _random_columns(mask: Array, columns: Array, random: Array, shape: Shape) -> None:
    state, width = random[0], np.uint64(shape.columns)
    stride, top = shape.stride, shape.rows - 1
    for at in range(len(mask)):
        # Draw until a column is free: full columns are rare, and drawing again is cheaper than counting.
        while True:
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            column = np.int64(((state >> np.uint64(32)) * width) >> np.uint64(32))
            if not mask[at] >> (column * stride + top) & 1:
                break
            if mask[at] == shape.full:
                column = np.int64(0)
                break
        columns[at] = column
    random[0] = state


@compiled
def _legal(mask: Array, status: Array, out: Array, shape: Shape) -> None:
    for at in range(len(mask)):
        over = status[at] == WON or status[at] == DRAWN
        for column in range(shape.columns):
            out[at, column] = not over and not mask[at] >> (column * shape.stride + shape.rows - 1) & 1


@compiled
def write_planes(position: Array, mask: Array, out: Array, shape: Shape) -> None:
    """Write own stones, then the opponent's, as floats into the rows of `out`."""
    rows, columns, stride = shape.rows, shape.columns, shape.stride
    squares = rows * columns
    shifts = np.empty(squares, np.int64)
    for at in range(squares):
        shifts[at] = (at % columns) * stride + rows - 1 - at // columns
    for board in range(len(mask)):
        own, theirs = position[board], position[board] ^ mask[board]
        row = out[board]
        for at in range(squares):
            row[at] = np.float32(np.int32((own >> shifts[at]) & 1))
        for at in range(squares):
            row[squares + at] = np.float32(np.int32((theirs >> shifts[at]) & 1))
