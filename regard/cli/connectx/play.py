"""`regard connectx play`: play against a player in the terminal."""

from functools import cache
from typing import TYPE_CHECKING, Annotated

from regard.cli.connectx.options import Size, read_size
from regard.cli.options import argument, flag, option
from regard.connectx.players.registry import PLAYER_NAMES

if TYPE_CHECKING:
    from regard.connectx import Solver


def play(
    opponent: Annotated[str, argument("PLAYER", f"Opponent: {PLAYER_NAMES}.")] = "minimax:8",
    second: Annotated[bool, flag("--second", "Let the opponent move first.")] = False,
    moves: Annotated[str, option("MOVES", "Start after these moves, columns from 1.")] = "",
    hints: Annotated[bool, flag("--hints", "Show the outcome of every column before each move.")] = False,
    size: Size = "6x7x4",
) -> None:
    """Play in the terminal. Type a column, u to undo, h for hints, q to quit.

    Example: regard connectx play solver --second --hints
    """
    from regard.connectx import Board, Solver, play_in_terminal, player
    from regard.connectx.game.bitboard import fits_in_64_bits

    board = Board.from_moves(moves, *read_size(size))
    if board.over:
        raise ValueError(f"the game {moves} is over; give fewer moves")

    @cache
    def solver() -> "Solver":  # created at the first hint, because it takes memory and may have to be compiled
        return Solver(board.rows, board.columns, board.inarow)

    scores = (lambda board: solver().scores(board)) if fits_in_64_bits(board.shape) else None
    play_in_terminal(player(opponent), board, side=2 if second else 1, hints=scores, always=hints)
