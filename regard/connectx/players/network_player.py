"""Player with a network: by its policy alone, or with a tree search that the network guides.

The policy is the mean of the network's outputs for the board and for its mirror image, without looking ahead. With
simulations, PUCT searches the tree (`search/puct_network_search.py`); it knows the rules and looks ahead exactly from
each leaf for at most `LOOK_AHEAD` positions, but uses no solver. In the search a position is evaluated without its
mirror image, which would double the cost and add little. If the network has an opening table, the values of positions
that it was taught weigh more than values deeper in the tree.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from regard.connectx.game.board import Board
from regard.connectx.players.player import Budget
from regard.connectx.search.puct_network_search import Puct
from regard.connectx.search.search_tree import NO_GUESS
from regard.numba_functions import numba

if TYPE_CHECKING:
    from regard.models import BoardNet

NETWORKS = Path(__file__).parent.parent / "networks"  # in an exported file, __file__ has no parents[1]
SHIPPED = "four"  # used if no network is named
WITHOUT_TABLE = "without-table"  # name of the shipped network without its opening table
WIDTH = 8  # leaves of a tree that are evaluated in one batch
EXPLORATION = 1.5
LOOK_AHEAD = 1000  # positions that an exact search from a leaf may visit, about 0.1 ms; without numba it is left out
TABLE_WEIGHT = 100.0  # weight in the search of a value from the opening table; other values weigh 1
SCORE_SHARPNESS = 5.0  # converts a score into a value: the score 2, which the network outputs as 0.2, becomes 0.76


class PositionEvaluator(Protocol):
    """Function of planes (N, 2, rows, columns) and legal columns (N, columns); returns policy, value and score."""

    def __call__(self, planes: Any, legal: Any) -> Any: ...


class NetworkPlayer:
    """A network as a player.

    evaluator           evaluates positions: `regard.models.Evaluator`, or an object with the same interface
    simulations         simulations of the search for a move; None without `seconds` plays by the policy alone
    seconds             time of the search for a move
    search_evaluator    evaluates the positions of the search; `evaluator` by default
    in_table            returns which positions, given as planes, have exact values from an opening table; None: none
    name                name of the player

    >>> from regard.connectx import Board, player
    >>> player("network").choose(Board())
    3
    """

    def __init__(
        self, evaluator: PositionEvaluator, simulations: int | None = None, seconds: float | None = None, *,
        search_evaluator: PositionEvaluator | None = None, in_table: Callable[[Any], Any] | None = None,
        name: str = "network",
    ) -> None:  # fmt: skip
        self.evaluator, self.simulations, self.seconds, self.name = evaluator, simulations, seconds, name
        self.search_evaluator = evaluator if search_evaluator is None else search_evaluator
        self.in_table = in_table

    def evaluate(self, board: Board) -> tuple[list[float], float]:
        """Return the probability of every column and the value for the side to move, without a search."""
        planes, legal = _planes(board)
        result = self.evaluator(planes[None], legal[None])
        return [float(p) for p in result.policy[0]], float(result.value[0])

    def choose(self, board: Board) -> int:
        """Return the column to play."""
        if self.seconds is None:
            return self.choose_all([board])[0]
        return int(self.search(board).best()[0])

    def choose_all(self, boards: Sequence[Board]) -> list[int]:
        """Return the column to play on each of many boards, which the network evaluates in batches."""
        if self.seconds is not None or not boards:
            return [self.choose(board) for board in boards]
        if self.simulations is None:
            planes, legal = (np.stack(parts) for parts in zip(*map(_planes, boards), strict=True))
            policy = self.evaluator(planes, legal).policy
            return [int(column) for column in np.argmax(np.where(legal, policy, -1.0), 1)]
        search = self._new_search(boards, self.simulations)
        search.run(self.simulations)
        return [int(column) for column in search.best()]

    def search(self, board: Board, simulations: int | None = None) -> Puct:
        """Return a finished search from this board, with visits, values and priors of the moves.

        The search has `simulations` simulations if given, else the player's own number of simulations or seconds.
        """
        most = simulations or self.simulations or 4096
        search = self._new_search([board], most)
        end = None if self.seconds is None or simulations else time.perf_counter() + self.seconds
        done = 0
        while done < most and (end is None or time.perf_counter() < end):
            step = most - done if end is None else min(2 * WIDTH, most - done)
            search.run(step)
            done += step
        return search

    def _new_search(self, boards: Sequence[Board], most: int) -> Puct:
        return Puct(
            boards, self._evaluate, exploration=EXPLORATION, look_ahead=0 if numba is None else LOOK_AHEAD,
            width=min(WIDTH, most), nodes=most + 2,
        )  # fmt: skip

    def _evaluate(self, planes: Any, legal: Any) -> tuple[Any, ...]:
        """Return policy and values of a search's leaves, predicted values of the moves, and weights of the values."""
        result = self.search_evaluator(planes, legal)
        guesses = np.full(legal.shape, NO_GUESS)
        if result.score is not None and result.score.shape == legal.shape:
            guesses = np.tanh(SCORE_SHARPNESS * result.score)
        weights = np.ones(len(planes))
        if self.in_table is not None:
            weights[self.in_table(planes)] = TABLE_WEIGHT
        return result.policy, result.value, guesses, weights


def load_network(source: str | os.PathLike[str] = SHIPPED) -> "BoardNet":
    """Return a trained network.

    source      folder of a run, or name of a network that comes with regard; "without-table" is the shipped network
                without its opening table

    >>> load_network("four").config.channels
    96
    """
    from regard.models import BoardNet, load, with_opening_table

    if source == WITHOUT_TABLE:
        return with_opening_table(load_network(SHIPPED))
    folder = Path(source)
    if not (folder / "model.json").is_file():
        shipped = networks()
        if str(source) not in shipped:
            names = ", ".join(shipped) or "none is shipped"
            raise ValueError(f"{source} contains no network; give the folder of a run, or a shipped network: {names}")
        folder = NETWORKS / str(source)
    net = load(folder)
    if not isinstance(net, BoardNet):
        raise ValueError(f"{folder} must contain a board network, got a {type(net).__name__}")
    return net


def has_opening_table(source: str) -> bool:
    """Return whether the network that `load_network` finds at this source has an opening table, without loading it.

    >>> has_opening_table(""), has_opening_table("without-table")
    (True, False)
    """
    folder = Path(source or SHIPPED)
    if not (folder / "model.json").is_file():
        folder = NETWORKS / (source or SHIPPED)
    if not (folder / "model.json").is_file():  # no network at all, or the shipped one without its table
        return False
    from regard.files import read_json

    saved = read_json(folder / "model.json", "a network of regard connectx train", "give another one", "config")
    return bool(saved["config"].get("opening_table") or saved["config"].get("memory"))  # "memory" in older files


def networks() -> list[str]:
    """Return the names of the networks that come with regard.

    >>> networks()
    ['four']
    """
    return sorted(path.parent.name for path in NETWORKS.glob("*/model.json"))


def load_network_player(source: str | os.PathLike[str], budget: Budget = Budget()) -> NetworkPlayer:  # noqa: B008
    """Return a player with the network that `load_network` finds at this source; "" means the shipped network."""
    from regard.models import Evaluator

    net = load_network(source or SHIPPED)
    evaluator = Evaluator(net, mirror=True)
    in_table = evaluator.in_table if net.config.opening_table else None
    return NetworkPlayer(evaluator, *budget, search_evaluator=evaluator.without_mirror(), in_table=in_table)


def _planes(board: Board) -> tuple[Any, Any]:
    """Return own stones and the opponent's, (2, rows, columns) of float32, and which columns are legal."""
    squares = np.array(board.kaggle(), np.int8).reshape(board.rows, board.columns)
    planes = np.stack([squares == board.turn, squares == 3 - board.turn]).astype(np.float32)
    return planes, squares[0] == 0
