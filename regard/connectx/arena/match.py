"""One game between two players."""

import time
from dataclasses import dataclass

from regard.connectx.game.board import Board
from regard.connectx.players.player import Player, PlayerError


@dataclass(frozen=True)
class Game:
    """A finished game.

    first, second   names of the players
    opening         moves of the opening
    moves           all moves from the empty board; the players chose those after `opening`
    winner          1, 2, or None for a draw
    status          DONE, or Kaggle's status of a player that failed: ERROR, TIMEOUT or INVALID
    reason          why the player failed
    slowest         longest time that each player took for a move, in seconds

    >>> Game("random", "greedy", opening="", moves="1213141", winner=1).status
    'DONE'
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
        """Return the points of this player: 1 for a win, ½ for a draw, 0 for a loss."""
        if self.winner is None:
            return 0.5
        return float((self.first, self.second)[self.winner - 1] == name)


def play_game(first: Player, second: Player, opening: Board | None = None) -> Game:
    """Play a game to its end. A player that raises an exception, plays an illegal move or is too slow loses.

    first, second   the players
    opening         board to begin with; the empty board by default

    >>> from regard.connectx import player
    >>> play_game(player("greedy"), player("greedy")).winner in (1, 2, None)
    True
    """
    board = Board() if opening is None else opening
    opening_moves = board.moves
    players, slowest = (first, second), [0.0, 0.0]

    def result(winner: int | None, status: str = "DONE", reason: str = "") -> Game:
        times = (round(slowest[0], 4), round(slowest[1], 4))
        return Game(first.name, second.name, opening_moves, board.moves, winner, status, reason, times)

    while not board.over:
        side = board.turn - 1
        start = time.perf_counter()
        try:
            column = players[side].choose(board)
            slowest[side] = max(slowest[side], time.perf_counter() - start)
            if type(column) is not int or column not in board.legal:
                raise PlayerError("INVALID", f"{column!r} is not a legal column; legal columns are {board.legal}")
        except PlayerError as error:
            return result(2 - side, error.status, error.reason)
        except Exception as error:  # any error of a player ends the game, not the program
            return result(2 - side, "ERROR", f"{type(error).__name__}: {error}")
        board = board.play(column)
    return result(board.winner)
