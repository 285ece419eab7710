"""A network against fixed opponents, many games at once: what wins it has, while it is still learning."""

import numpy as np

from regard.connectx.game.board_batch import RUNNING, WON, Boards
from regard.connectx.players.registry import player
from regard.models import BoardNet, Evaluator

RANDOM_PLIES = 2  # moves by lot at the beginning of every pair of games, so that they differ


def won_against(
    net: BoardNet,
    opponents: tuple[str, ...],
    *,
    games: int = 100,
    size: tuple[int, int, int] = (6, 7, 4),
    seed: int = 0,
) -> dict[str, float]:
    """The share of games won by the network's policy alone, the likeliest move each time, half with each side.

    A draw counts half. Games begin with two moves by lot; the network plays both sides of each beginning.
    """
    evaluator = Evaluator(net)
    return {
        f"won_against_{name.replace(':', '_')}": _share(evaluator, name, games, size, seed) for name in opponents
    }  # fmt: skip


def _share(evaluator: Evaluator, name: str, games: int, size: tuple[int, int, int], seed: int) -> float:
    pairs = max(1, games // 2)
    boards = Boards(2 * pairs, *size)
    random = np.random.default_rng(seed)
    for _ in range(RANDOM_PLIES):
        columns = random.integers(size[1], size=pairs)
        boards.step(np.concatenate([columns, columns]))
    mine = np.repeat([0, 1], pairs)  # whether the network has the first or the second player
    seat = player(name, seed=seed)
    points = np.full(2 * pairs, 0.5)
    while (running := boards.status == RUNNING).any():
        turn = running & (boards.stones() % 2 == mine)
        columns = np.zeros(2 * pairs, np.int64)
        if turn.any():
            judged = evaluator(boards.planes()[turn], boards.legal()[turn])
            columns[turn] = judged.policy.argmax(1)
        for game in np.flatnonzero(running & ~turn).tolist():
            columns[game] = seat.choose(boards[game])
        boards.step(columns)
        ended = running & (boards.status == WON)
        points[ended] = turn[ended]
    return float(points.mean())
