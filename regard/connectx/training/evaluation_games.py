"""Games of a network against fixed opponents, to measure its progress during training."""

import numpy as np

from regard.connectx.game.board_batch import RUNNING, WON, Boards
from regard.connectx.players.registry import player
from regard.models import BoardNet, Evaluator

RANDOM_PLIES = 2  # random moves at the start of every pair of games, so that the games differ


def win_rates(
    network: BoardNet, opponents: tuple[str, ...], *, games: int = 100, size: tuple[int, int, int] = (6, 7, 4),
    seed: int = 0,
) -> dict[str, float]:  # fmt: skip
    """Return the network's score against each opponent, as {"won_against_NAME": score}; a draw counts half.

    The network plays the most probable move of its policy, without search. Games start with two random moves; the
    network plays both sides of each start.
    """
    evaluator = Evaluator(network)
    return {f"won_against_{name.replace(':', '_')}": _score(evaluator, name, games, size, seed) for name in opponents}


def _score(evaluator: Evaluator, name: str, games: int, size: tuple[int, int, int], seed: int) -> float:
    pairs = max(1, games // 2)
    boards = Boards(2 * pairs, *size)
    random = np.random.default_rng(seed)
    for _ in range(RANDOM_PLIES):
        columns = random.integers(size[1], size=pairs)
        boards.step(np.concatenate([columns, columns]))
    side = np.repeat([0, 1], pairs)  # the network is the first or the second player
    opponent = player(name, seed=seed)
    points = np.full(2 * pairs, 0.5)
    while (running := boards.status == RUNNING).any():
        network_moves = running & (boards.stones() % 2 == side)
        columns = np.zeros(2 * pairs, np.int64)
        if network_moves.any():
            evaluation = evaluator(boards.planes()[network_moves], boards.legal()[network_moves])
            columns[network_moves] = evaluation.policy.argmax(1)
        for game in np.flatnonzero(running & ~network_moves).tolist():
            columns[game] = opponent.choose(boards[game])
        boards.step(columns)
        won = running & (boards.status == WON)
        points[won] = network_moves[won]
    return float(points.mean())
