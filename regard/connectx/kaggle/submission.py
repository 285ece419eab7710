"""What keeps an exported player within Kaggle's rules: in time, a plain int, and never an exception.

This module travels in the exported file, together with the player's own. Thinking takes less than half of what a move
may take: the rest is for machines slower than they were. Only the first call, which compiles, may take longer.
"""

import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

from regard.compiled import numba
from regard.connectx.game.bitboard import Shape, from_the_centre
from regard.connectx.game.board import Board
from regard.connectx.kaggle.agent import board_of
from regard.connectx.players.registry import Mcts, Minimax, Perfect, Player, player, read_amount

SHARE = 0.4  # of the time that a move may take
PATIENCE = 0.5  # of that time for the solver, the rest for another search if it has not answered
OPENING = 8  # stones; after that the solver needs no book
FIRST = 8.0  # seconds that the first move waits for the compiler; on a machine that slow, Python plays on meanwhile


def agent_of(name: str) -> Callable[[Any, Any], int]:
    """The agent that plays as the player of this name would, within the rules.

    >>> act = agent_of("greedy")
    >>> act({"board": [0] * 42, "mark": 1}, {"rows": 6, "columns": 7, "inarow": 4, "actTimeout": 2})
    3
    >>> act({"board": "nonsense"}, {"columns": 7})
    0
    """
    players: list[Player] = []
    meanwhile: list[Player] = []

    def prepare(seconds: float, shape: Shape) -> None:
        with suppress(Exception):
            players.append(in_time(name, seconds, shape))

    compiling: list[Thread] = []

    def act(observation: Any, configuration: Any) -> int:
        with suppress(Exception):  # a bad move loses a game; an exception loses it at once
            board = board_of(observation, configuration)
            seconds = SHARE * float(configuration["actTimeout"])
            if not compiling:  # no daemon: a program that ends waits for the compiler, which cannot be cut short
                compiling.append(Thread(target=prepare, args=(seconds, board.shape)))
                compiling[0].start()
                compiling[0].join(FIRST)
            if not players and not meanwhile:
                meanwhile.append(Minimax(None, seconds, plain=True))
            column = int((players or meanwhile)[0].choose(board))
            if column in board.legal:
                return column
        return _any_column(observation, configuration)

    return act


def in_time(name: str, seconds: float, shape: Shape) -> Player:
    """The player of this name, that thinks no longer than this."""
    kind, _, amount = name.partition(":")
    if kind in ("minimax", "mcts"):
        number, given = read_amount(name, amount or {"minimax": "5", "mcts": "1000"}[kind], "steps")
        limit = seconds if given is None else min(seconds, given)
        return Minimax(number, limit) if kind == "minimax" else Mcts(number, limit)
    if kind == "solver":
        return PerfectInTime(seconds, shape)
    if kind == "network":
        from regard.connectx.kaggle.numpy_network import Forward
        from regard.connectx.players.network_player import Network

        number, given = read_amount(name, amount, "simulations") if amount else (None, None)
        most = None if not amount else seconds if given is None else min(seconds, given)
        forward = Forward(carried("network") or b"")
        return Network(
            forward, number, most, within=forward.one_sided, opening_table=forward.config.get("opening_table", ())
        )
    return player(name)


class PerfectInTime:
    """The solver on 6×7×4, as far as it answers in time; alpha-beta where it does not, and on other boards.

    The solver cannot be interrupted, so it thinks in a thread (its machine code lets others run meanwhile). As far as
    the opening is not covered by the book, it is not asked before the opening is over.
    """

    name = "solver"

    def __init__(self, seconds: float, shape: Shape) -> None:
        self.seconds = seconds
        self._searching = Minimax(None, (1 - PATIENCE) * seconds)
        self._perfect: Player | None = None
        self._asked: dict[Board, int] = {}
        self._thread: Thread | None = None
        self._until = 0
        if shape[:3] == (6, 7, 4) and numba is not None:
            book = carried_book()
            self._until = 0 if book is None else max(book.whole, default=0)
            self._perfect = Perfect(book)
            self._perfect.choose(_nearly_over(shape))  # compiles it

    def choose(self, board: Board) -> int:
        """The column to play."""
        asked = board.stones >= OPENING or board.stones < self._until
        if self._perfect is not None and board.shape[:3] == (6, 7, 4) and asked:
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._ask, args=(board,), daemon=True)
                self._thread.start()
                self._thread.join(PATIENCE * self.seconds)
            if board in self._asked:
                return self._asked[board]
        found = self._searching.choose(board)
        return self._asked.get(board, found)  # the solver may have come to its end meanwhile

    def _ask(self, board: Board) -> None:
        assert self._perfect is not None
        with suppress(Exception):
            self._asked[board] = self._perfect.choose(board)


def carried_book() -> Any:
    """The book that travels with an exported player; None where there is none."""
    packed = carried("book")
    if packed is None:
        return None
    from regard.connectx.solver.opening_book import load_book

    with tempfile.NamedTemporaryFile() as file:
        file.write(packed)
        file.flush()
        return load_book(file.name)


def carried(name: str) -> bytes | None:
    """A file that travels with an exported player; None where there is none."""
    found: bytes | None = vars(sys.modules[__name__.partition(".")[0]]).get("files", {}).get(name)
    return found


def _nearly_over(shape: Shape) -> Board:
    """A board where a few moves are left, and nobody has to think."""
    board = Board(*shape[:3])
    lot = random.Random(0)
    while True:
        after = board.play(lot.choice(board.legal))
        if after.over:
            if board.stones > shape.rows * shape.columns // 2 or after.full:
                return board
            after = Board(*shape[:3])
        board = after


def _any_column(observation: Any, configuration: Any) -> int:
    """A free column, near the centre, of whatever was given; 0 when that cannot be read."""
    try:
        board, columns = list(observation["board"]), int(configuration["columns"])
        return next(column for column in from_the_centre(columns) if board[column] == 0)
    except Exception:
        return 0
