"""One game between two players."""

import time
from dataclasses import asdict, dataclass
from typing import Any

from regard.connectx.game.board import Board
from regard.connectx.players.registry import Forfeit, Player


@dataclass(frozen=True)
class Game:
    """A game that was played: all moves from the empty board, who won, and how it ended.

    `opening` moves were given, not chosen. `winner` is 1, 2 or None for a draw. `status` is DONE, or what Kaggle would
    say of the loser: ERROR, TIMEOUT or INVALID, with the `reason`. `slowest` has the longest move of each, in seconds.
    """

    first: str
    second: str
    opening: str
    moves: str
    winner: int | None
    status: str = "DONE"
    reason: str = ""
    slowest: tuple[float, float] = (0.0, 0.0)

    def points(self, name: str) -> float:
        """1 for a win of this player, ½ for a draw, 0 for a loss."""
        if self.winner is None:
            return 0.5
        return float((self.first, self.second)[self.winner - 1] == name)

    def as_dict(self) -> dict[str, Any]:
        """The game as JSON has it."""
        return asdict(self)


def play_game(first: Player, second: Player, opening: Board | None = None) -> Game:
    """Play a game to its end. Whoever raises, gives no legal move or runs out of time loses it.

    >>> from regard.connectx import player
    >>> play_game(player("greedy"), player("greedy")).winner in (1, 2, None)
    True
    """
    board = Board() if opening is None else opening
    given = board.moves
    players, slowest = (first, second), [0.0, 0.0]

    def ended(winner: int | None, status: str = "DONE", reason: str = "") -> Game:
        times = (round(slowest[0], 4), round(slowest[1], 4))
        return Game(first.name, second.name, given, board.moves, winner, status, reason, times)

    while not board.over:
        side = board.turn - 1
        start = time.perf_counter()
        try:
            column = players[side].choose(board)
            slowest[side] = max(slowest[side], time.perf_counter() - start)
            if type(column) is not int or column not in board.legal:
                raise Forfeit("INVALID", f"{column!r} is no column that can be played; these can: {board.legal}")
        except Forfeit as error:
            return ended(2 - side, error.status, error.reason)
        except Exception as error:  # of a player, whatever it is: the match goes on
            return ended(2 - side, "ERROR", f"{type(error).__name__}: {error}")
        board = board.play(column)
    return ended(board.winner)
