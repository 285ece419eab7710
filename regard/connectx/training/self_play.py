"""Games of a network against itself, in groups: what the workers of AlphaZero do.

A task plays some moves in every game of a group. The state of the games travels with the task and comes back with
the result, so any worker can play any group, and a task that is played again gives the same result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.connectx.game.board_batch import RUNNING, WON, Boards
from regard.connectx.search.gumbel_root import gumbel_search
from regard.connectx.search.puct_network_search import Puct
from regard.parallel import Handle

Array = NDArray[Any]

HISTORY = ("position", "mask", "policy")  # arrays of all earlier positions of a game


@dataclass(frozen=True)
class PlayTask:
    """A group of games, the network that plays them (an `Evaluator`), and the seed of the search."""

    group: int
    games: dict[str, Array]
    network: Handle
    seed: tuple[int, ...]


@dataclass(frozen=True)
class Played:
    """The games after the moves, the positions of the games that ended, and the number of those games."""

    games: dict[str, Array]
    positions: dict[str, Array]
    ended: int


def new_games(count: int) -> dict[str, Array]:
    """Return the arrays of `count` games that begin: boards, and by number of stones the history of each game.

    >>> sorted((name, array.shape) for name, array in new_games(2).items())
    [('boards.mask', (2,)), ('boards.position', (2,)), ('mask', (2, 42)), ('policy', (2, 42, 7)), ('position', (2, 42))]
    """
    boards = Boards(count)
    cells = boards.shape.rows * boards.shape.columns
    return {
        "boards.position": boards.position,
        "boards.mask": boards.mask,
        "position": np.zeros((count, cells), np.int64),
        "mask": np.zeros((count, cells), np.int64),
        "policy": np.zeros((count, cells, boards.shape.columns), np.float32),
    }


def prepare(simulations: int, considered: int, moves_of_a_task: int) -> Callable[[PlayTask], Played]:
    """Return the function that plays a task: so many moves in every game, each after a search."""

    def play(task: PlayTask) -> Played:
        games = {name: array.copy() for name, array in task.games.items()}
        boards = Boards(len(games["mask"]))
        boards.position[:], boards.mask[:] = games["boards.position"], games["boards.mask"]
        evaluator = task.network.value()
        random = np.random.default_rng(task.seed)
        positions: list[tuple[Array, ...]] = []
        ended = 0
        for _ in range(moves_of_a_task):
            search = Puct(
                [boards[game] for game in range(len(boards))], lambda planes, legal: evaluator(planes, legal)[:2],
                nodes=simulations + 4, seed=int(random.integers(2**62)),
            )  # fmt: skip
            moves = gumbel_search(search, simulations, considered=considered)
            every, stones = np.arange(len(boards)), boards.stones()
            games["position"][every, stones], games["mask"][every, stones] = boards.position, boards.mask
            games["policy"][every, stones] = moves.policy
            status = boards.step(moves.columns).copy()
            over = np.flatnonzero(status != RUNNING)
            ended += len(over)
            for game in over.tolist():
                # The side that moved last has won.
                result = float(status[game] == WON) * (-1.0) ** np.arange(stones[game], -1, -1)
                history = game, slice(int(stones[game]) + 1)
                positions.append((*(games[name][history].copy() for name in HISTORY), result))
            boards.reset(status != RUNNING)
        games["boards.position"], games["boards.mask"] = boards.position.copy(), boards.mask.copy()
        columns = games["policy"].shape[2]
        nothing = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, columns), np.float32), np.zeros(0)
        parts = (np.concatenate(part) for part in zip(nothing, *positions, strict=True))
        return Played(games, dict(zip((*HISTORY, "result"), parts, strict=True)), ended)

    return play
