"""Interface of players, the exception that a failing player raises, and the budget of a move."""

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from regard.connectx.game.board import Board


@runtime_checkable
class Player(Protocol):
    """Chooses columns.

    >>> class LeftMost:
    ...     name = "left-most"
    ...     def choose(self, board):
    ...         return board.legal[0]
    >>> isinstance(LeftMost(), Player)
    True
    """

    name: str

    def choose(self, board: "Board") -> int:
        """Return the column to play, counted from 0, as a plain int; called only if the game is not over."""


class PlayerError(Exception):
    """A player failed: it raised an exception, took too long, or returned something that is not a legal move.

    status      the word that Kaggle uses: ERROR, TIMEOUT or INVALID
    reason      what happened

    >>> PlayerError("TIMEOUT", "no answer within 2 s").status
    'TIMEOUT'
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status, self.reason = status, reason


class Budget(NamedTuple):
    """Limit of the search for a move: a number of plies, play-outs or simulations, a time in seconds, or both."""

    number: int | None = None
    seconds: float | None = None

    def within(self, seconds: float) -> "Budget":
        """Return the budget with at most this much time."""
        return Budget(self.number, seconds if self.seconds is None else min(seconds, self.seconds))
