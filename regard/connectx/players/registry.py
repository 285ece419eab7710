"""Whoever can choose a column: one protocol, and a name for each that can be typed.

random            any legal column
greedy            completes a line, else blocks one, else the centre-most column
minimax:5         alpha-beta, 5 plies deep           minimax:100ms   as deep as the time allows
mcts:1000         tree search with 1,000 play-outs   mcts:100ms      as many as the time allows
solver            perfect play
network           the shipped network, its policy alone
network:200       with a search of 200 simulations  network:100ms   as many as the time allows
network:runs/a    another network, also network:runs/a:200
path/main.py      a Kaggle agent, in a process of its own (also .tar.gz)
"""

import difflib
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from regard.compiled import uncompiled
from regard.connectx.game.bitboard import Shape, candidates, completing, from_the_centre, possible
from regard.connectx.game.board import Board
from regard.connectx.search.time_budget import undisturbed

if TYPE_CHECKING:
    from regard.connectx.search.alpha_beta import AlphaBeta
    from regard.connectx.search.mcts import Uct
    from regard.connectx.solver.solver import Solver

_completing, _possible, _candidates = uncompiled(completing), uncompiled(possible), uncompiled(candidates)


@runtime_checkable
class Player(Protocol):
    """Chooses a column, counted from 0, a plain int. The board's game is not over."""

    name: str

    def choose(self, board: Board) -> int:
        """The column to play."""
        ...


class Forfeit(Exception):
    """A player that cannot go on: it raised, took too long, or gave something that is no move.

    `status` is what Kaggle would say: ERROR, TIMEOUT or INVALID.
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status, self.reason = status, reason


def player(name: str, *, seed: int | None = None) -> Player:
    """The player of this name; `seed` makes random choices repeatable.

    >>> player("greedy").choose(Board.from_moves("112233"))
    3
    >>> player("minmax:5")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: no player is called 'minmax:5'; did you mean 'minimax:5'? Players are ...
    """
    kind, _, amount = name.strip().partition(":")
    if kind in MAKERS and not (name.endswith((".py", ".tar.gz")) and Path(name).exists()):
        made = MAKERS[kind](name.strip(), amount, seed)
        made.name = name.strip()
        return made
    if name.endswith((".py", ".tar.gz")):
        from regard.connectx.players.agent_file import AgentFile

        return AgentFile(name)
    known = ["random", "greedy", "minimax:5", "minimax:100ms", "mcts:1000", "mcts:100ms", "solver"]
    known += ["network", "network:200", "network:RUN:200", "path/main.py"]
    near = difflib.get_close_matches(kind, MAKERS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0] + (':' + amount if amount else '')!r}? " if near else ""
    raise ValueError(f"no player is called {name!r}; {hint}Players are {', '.join(known)}")


def read_amount(name: str, amount: str, unit: str) -> tuple[int | None, float | None]:
    """What follows the colon: a number of something, or a time in seconds.

    >>> read_amount("mcts:100ms", "100ms", "play-outs"), read_amount("mcts:1_000", "1_000", "play-outs")
    ((None, 0.1), (1000, None))
    """
    match = re.fullmatch(r"(\d[\d_]*(?:\.\d+)?)(ms|s)?", amount)
    if match is None or (match[2] is None and "." in match[1]):
        raise ValueError(f"{name!r} must end in a number of {unit} or a time, such as 1000, 100ms or 2s")
    if match[2] is None:
        number, seconds = int(match[1]), None
    else:
        number, seconds = None, float(match[1]) / (1000 if match[2] == "ms" else 1)
    if number == 0 or seconds == 0:
        raise ValueError(f"{name!r} gives the player nothing to think with; give it more than 0")
    return number, seconds


class Random:
    """Any legal column."""

    def __init__(self, seed: int | None = None) -> None:
        self.name = "random"
        self._random = random.Random(seed)

    def choose(self, board: Board) -> int:
        """The column to play."""
        return self._random.choice(board.legal)

    def policy(self, board: Board) -> list[float]:
        """The chance of each column, so that it can be graded without playing."""
        legal = board.legal
        return [1 / len(legal) if column in legal else 0.0 for column in range(board.columns)]


class Greedy:
    """One move ahead: completes a line, else blocks one, else the centre-most column."""

    name = "greedy"

    def choose(self, board: Board) -> int:
        """The column to play."""
        moves = _possible(board.mask, board.shape)
        wins = _completing(board.position, board.shape) & moves
        blocks = _completing(board.position ^ board.mask, board.shape) & moves
        return centre_most(wins or blocks or moves, board.shape)


class Minimax:
    """Alpha-beta to a depth, or for a time; `plain` in Python alone, slower but ready at once."""

    def __init__(self, depth: int | None, seconds: float | None = None, *, plain: bool = False) -> None:
        from regard.connectx.search.alpha_beta import AlphaBeta

        self.name = "minimax"
        self.depth, self.seconds, self.plain = depth, seconds, plain
        self._searches: dict[Shape, AlphaBeta] = {}
        self.search(Board().shape).run(0, 0, depth=1)  # what has to be compiled is compiled before the clock runs

    def search(self, shape: Shape) -> "AlphaBeta":
        """The search for boards of this size."""
        from regard.connectx.search.alpha_beta import AlphaBeta

        if shape not in self._searches:
            self._searches[shape] = AlphaBeta(shape, plain=self.plain)
        return self._searches[shape]

    def choose(self, board: Board) -> int:
        """The column to play."""
        moves = _candidates(board.position, board.mask, board.shape)
        if moves & (moves - 1) == 0:
            return centre_most(moves, board.shape)  # a win, or the only move that does not lose at once
        search = self.search(board.shape)
        with undisturbed():
            found = search.run(board.position, board.mask, depth=self.depth, seconds=self.seconds, moves=moves)
        return found.column


class Mcts:
    """Tree search with random play-outs; the tree is kept from move to move."""

    def __init__(self, simulations: int | None, seconds: float | None = None, seed: int | None = None) -> None:
        from regard.connectx.search.mcts import Uct

        self.name = "mcts"
        self.simulations, self.seconds = simulations, seconds
        self._seed = random.Random(seed)
        self._searches: dict[Shape, Uct] = {}
        search = self._search(Board().shape)
        search.run(0, 0, simulations=2)
        search.run(3, 3, simulations=2)  # keeps nothing: compiles that as well

    def _search(self, shape: Shape) -> "Uct":
        from regard.connectx.search.mcts import Uct

        if shape not in self._searches:
            # A tree takes at most one node for each play-out; what is kept from before comes on top.
            nodes = 1 << 18 if self.simulations is None else min(1 << 18, 2 * self.simulations + 64)
            self._searches[shape] = Uct(shape, seed=self._seed.getrandbits(48), nodes=nodes)
        return self._searches[shape]

    def choose(self, board: Board) -> int:
        """The column to play."""
        moves = _candidates(board.position, board.mask, board.shape)
        if moves & (moves - 1) == 0:
            return centre_most(moves, board.shape)
        search = self._search(board.shape)
        with undisturbed():
            search.run(board.position, board.mask, simulations=self.simulations, seconds=self.seconds)
            return search.best()


class Perfect:
    """The solver's best column; among equals the centre-most."""

    name = "solver"

    def __init__(self, book: Any = "shipped") -> None:
        self.book = book
        self._solvers: dict[Shape, Solver] = {}

    def choose(self, board: Board) -> int:
        """The column to play."""
        from regard.connectx.solver.solver import Solver

        if board.shape not in self._solvers:
            self._solvers[board.shape] = Solver(board.rows, board.columns, board.inarow, book=self.book)
        return self._solvers[board.shape].best(board)


def centre_most(moves: int, shape: Shape) -> int:
    """Of these squares' columns, the one nearest to the centre (the left one of two)."""
    column = (1 << shape.rows) - 1
    return next(c for c in from_the_centre(shape.columns) if moves >> c * shape.stride & column)


def _plain(maker: Callable[[int | None], Player]) -> Callable[[str, str, int | None], Player]:
    def make(name: str, amount: str, seed: int | None) -> Player:
        if amount:
            raise ValueError(f"{name.split(':')[0]!r} takes nothing after a colon, got {name!r}")
        return maker(seed)

    return make


def _minimax(name: str, amount: str, seed: int | None) -> Player:
    return Minimax(*read_amount(name, amount or "5", "plies"))


def _mcts(name: str, amount: str, seed: int | None) -> Player:
    simulations, seconds = read_amount(name, amount or "1000", "play-outs")
    return Mcts(simulations, seconds, seed)


def _network(name: str, amount: str, seed: int | None) -> Player:
    from regard.connectx.players.network_player import network_player

    return network_player(name)


MAKERS: dict[str, Callable[[str, str, int | None], Player]] = {
    "random": _plain(Random),
    "greedy": _plain(lambda seed: Greedy()),
    "minimax": _minimax,
    "mcts": _mcts,
    "solver": _plain(lambda seed: Perfect()),
    "network": _network,
}
