"""A network that plays: by its policy alone, or with a search that it leads.

The policy is the mean of what the network says of the board and of its mirror image; no move is looked ahead. With
simulations, PUCT walks down the tree so many times (puct.py); it knows the rules, but no solver. There a position is
judged as it stands: its mirror image would cost as much again, and says hardly more. Where the network has a memory of
openings, their values outweigh what it thinks of positions farther down.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from regard.connectx.game.board import Board
from regard.connectx.search.puct import Puct
from regard.connectx.search.search_tree import NO_GUESS

if TYPE_CHECKING:
    from regard.models import BoardNet

NETWORKS = Path(__file__).parents[1] / "networks"
SHIPPED = "four"  # the one that is meant when none is named
WIDTH = 8  # leaves of a tree that are judged at once
EXPLORE = 1.5
IN_OPENING_TABLE = 100.0  # what a value that the network knows by heart weighs in the search, beside others
SCORE_SHARPNESS = 5.0  # what makes a value of a score: one of 2, which the network tells as 0.2, is worth 0.76


class Judge(Protocol):
    """Planes (N, 2, rows, columns) and legal columns (N, columns) → probabilities, values and scores."""

    def __call__(self, planes: Any, legal: Any) -> Any: ...


class Network:
    """A network as a player.

    judge           what says how good positions are: `regard.models.Evaluator`, or anything like it
    simulations     walks of the search for a move; None with no `seconds`: the policy alone
    seconds         the time for a move instead
    within          who judges the positions of the search; `judge` unless given
    opening_table   (rows, columns, stones) of the positions that the network's opening table covers, as in its
                    configuration; () for none
    """

    def __init__(
        self, judge: Judge, simulations: int | None = None, seconds: float | None = None, *,
        within: Judge | None = None, opening_table: Sequence[int] = (), name: str = "network",
    ) -> None:  # fmt: skip
        self.judge, self.simulations, self.seconds, self.name = judge, simulations, seconds, name
        self.within = judge if within is None else within
        self.opening_table = tuple(opening_table)

    def judged(self, board: Board) -> tuple[list[float], float]:
        """The probability of every column, and the value for the side to move, without a search."""
        planes, legal = _as_planes(board)
        found = self.judge(planes[None], legal[None])
        return [float(p) for p in found.policy[0]], float(found.value[0])

    def choose(self, board: Board) -> int:
        """The column to play."""
        if self.seconds is None:
            return self.choose_all([board])[0]
        return int(self.search(board).best()[0])

    def choose_all(self, boards: Sequence[Board]) -> list[int]:
        """The column to play on each of many boards, judged side by side."""
        if self.seconds is not None or not boards:
            return [self.choose(board) for board in boards]
        if self.simulations is None:
            planes, legal = (np.stack(parts) for parts in zip(*map(_as_planes, boards), strict=True))
            policy = self.judge(planes, legal).policy
            return [int(column) for column in np.argmax(np.where(legal, policy, -1.0), 1)]
        search = self._planted(boards, self.simulations)
        search.run(self.simulations)
        return [int(column) for column in search.best()]

    def _planted(self, boards: Sequence[Board], most: int) -> Puct:
        return Puct(boards, self._evaluate, explore=EXPLORE, width=min(WIDTH, most), nodes=most + 2)

    def search(self, board: Board, simulations: int | None = None) -> Puct:
        """The search from this board, so far or as far as it may go: visits, values and priors of the moves."""
        most = simulations or self.simulations or 4096
        search = self._planted([board], most)
        end = None if self.seconds is None or simulations else time.perf_counter() + self.seconds
        done = 0
        while done < most and (end is None or time.perf_counter() < end):
            step = most - done if end is None else min(2 * WIDTH, most - done)
            search.run(step)
            done += step
        return search

    def _evaluate(self, planes: Any, legal: Any) -> tuple[Any, ...]:
        found = self.within(planes, legal)
        guesses = np.full(legal.shape, NO_GUESS)
        if found.score is not None and found.score.shape == legal.shape:
            guesses = np.tanh(SCORE_SHARPNESS * found.score)
        weights = np.ones(len(planes))
        if self.opening_table[:2] == planes.shape[2:]:
            weights[planes.sum((1, 2, 3)) <= self.opening_table[2]] = IN_OPENING_TABLE
        return np.log(np.maximum(found.policy, 1e-9)), found.value, guesses, weights


def load_network(where: str | os.PathLike[str] = SHIPPED) -> "BoardNet":
    """A trained network: a run's folder, or the name of one that comes with regard."""
    from regard.models import BoardNet, load

    folder = Path(where)
    if not (folder / "model.json").is_file():
        shipped = networks()
        if str(where) not in shipped:
            listed = ", ".join(shipped) or "none is shipped"
            raise ValueError(f"{where} holds no network; give a run's folder, or a network that is here: {listed}")
        folder = NETWORKS / str(where)
    net = load(folder)
    if not isinstance(net, BoardNet):
        raise ValueError(f"{folder} holds a {type(net).__name__}, not a board network")
    return net


def networks() -> list[str]:
    """The names of the networks that come with regard."""
    return sorted(path.parent.name for path in NETWORKS.glob("*/model.json"))


def network_player(name: str) -> Network:
    """The player that `network`, `network:200`, `network:FOLDER` or `network:FOLDER:100ms` names."""
    from regard.models import Evaluator

    where, simulations, seconds = read_network_name(name)
    net = load_network(where)
    evaluator, table = Evaluator(net, mirror=True), net.config.opening_table
    return Network(evaluator, simulations, seconds, within=evaluator.without_mirror(), opening_table=table, name=name)


def read_network_name(name: str) -> tuple[str, int | None, float | None]:
    """Which network, and how many simulations or seconds for a move.

    >>> read_network_name("network"), read_network_name("network:runs/mine:200")
    (('four', None, None), ('runs/mine', 200, None))
    """
    from regard.connectx.players.registry import read_amount

    given = name.partition(":")[2]
    where, _, last = given.rpartition(":")
    if not last[:1].isdigit() or (Path(given) / "model.json").exists():
        return given or SHIPPED, None, None
    return (where or SHIPPED, *read_amount(name, last, "simulations"))


def _as_planes(board: Board) -> tuple[Any, Any]:
    """(2, rows, columns) of float32, own stones and the opponent's, and which columns may be played."""
    squares = np.array(board.kaggle(), np.int8).reshape(board.rows, board.columns)
    planes = np.stack([squares == board.turn, squares == 3 - board.turn]).astype(np.float32)
    return planes, squares[0] == 0
