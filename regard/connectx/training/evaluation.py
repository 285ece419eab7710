"""Evaluation of a network: on solved positions that it has not learnt from, and in games against fixed opponents."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from regard.connectx.data.label_storage import FULL, Labels
from regard.connectx.game.board_batch import RUNNING, WON, Boards, planes_of
from regard.connectx.players.registry import player
from regard.models import Evaluator

THIRDS = ("begin", "middle", "end")  # thirds of a game, by the share of occupied squares
RANDOM_PLIES = 2  # random moves at the start of every pair of games, so that the games differ


def balanced_sample(labels: Labels, count: int) -> Labels:
    """Return at most `count` positions of each third of a game (see `THIRDS`); equal `labels` give equal samples.

    Within a third, all numbers of stones occur about equally often.

    >>> from regard.connectx import Board
    >>> empty = np.zeros(1, np.int64)
    >>> labels = Labels(Board().shape, empty, empty, np.zeros((1, 7), np.int8), np.zeros(1, np.uint8))
    >>> len(balanced_sample(labels, 10))
    1
    """
    random = np.random.default_rng(0)
    sample = []
    for third in range(len(THIRDS)):
        indices = random.permutation(np.flatnonzero(_third(labels) == third))
        stones = labels.stones[indices]
        # Rank positions among those with the same number of stones; the first of each come before all second ones.
        rank = np.empty(len(indices), np.int64)
        for ply in np.unique(stones):
            rank[stones == ply] = np.arange((stones == ply).sum())
        sample.append(indices[np.argsort(rank, kind="stable")[:count]])
    return labels[np.sort(np.concatenate(sample))]


def evaluate_network(
    net: nn.Module | Callable[..., Any], labels: Labels, *, mirror: bool = False, by_ply: bool = True
) -> dict[str, Any]:
    """Return metrics of the network's most probable moves on `labels`, positions with exact scores.

    `net` is a BoardNet, or any module or function that maps planes (N, 2, rows, columns) to policy logits (N, columns)
    and value (N, 1), see `regard/models/board/any_network.py`.

    error         fraction of moves that turn a win into a draw or loss, or a draw into a loss
    perfect       fraction of moves with the best score: the fastest win or the slowest loss
    doubt         mean of −log(probability of all moves that keep the value); finer than `error`, it can distinguish
                  networks that make the same mistakes
    value_error   mean absolute error of the value

    >>> from regard.connectx import Board, Labels
    >>> empty = np.zeros(1, np.int64)
    >>> scores = np.array([[-2, -1, 0, 1, 0, -1, -2]], np.int8)
    >>> labels = Labels(Board().shape, empty, empty, scores, np.zeros(1, np.uint8))
    >>> def centre(planes):
    ...     return planes.new_tensor([0, 1, 2, 3, 2, 1, 0.0]).expand(len(planes), 7), planes.new_zeros(len(planes))
    >>> evaluate_network(centre, labels)["error"]
    0.0

    `error`, `perfect` and `doubt` are means over the three thirds of a game; error_begin, … belong to one third and,
    with `by_ply`, error_at_PLY to one number of stones. `mirror` averages the network over the board and its mirror.
    """
    evaluator = Evaluator(net, mirror=mirror)
    evaluation = evaluator(planes_of(labels.position, labels.mask, labels.shape), labels.scores != FULL)
    scores = labels.scores.astype(np.int64)
    best = scores.max(1)
    move_scores = scores[np.arange(len(scores)), evaluation.policy.argmax(1)]
    keeps = (np.sign(scores) == np.sign(best)[:, None]) & (labels.scores != FULL)
    by_position = {
        "error": np.sign(move_scores) != np.sign(best),
        "perfect": move_scores == best,
        "doubt": -np.log(np.maximum((evaluation.policy * keeps).sum(1), 1e-6)),
    }
    third = _third(labels)
    present = [number for number in range(len(THIRDS)) if (third == number).any()]
    by_third = {name: [values[third == number].mean() for number in present] for name, values in by_position.items()}
    metrics: dict[str, Any] = {name: float(np.mean(means)) for name, means in by_third.items()}
    metrics["value_error"] = float(np.abs(evaluation.value - np.sign(best)).mean())
    for i, number in enumerate(present):
        for name in ("error", "perfect"):
            metrics[f"{name}_{THIRDS[number]}"] = float(by_third[name][i])
    if by_ply:
        for ply in np.unique(labels.stones).tolist():
            metrics[f"error_at_{ply}"] = float(by_position["error"][labels.stones == ply].mean())
    return metrics


def _third(labels: Labels) -> np.ndarray:
    return np.minimum(3 * labels.stones // (labels.shape.rows * labels.shape.columns), 2)


def win_rates(network: nn.Module, opponents: tuple[str, ...], *, games: int = 100) -> dict[str, float]:
    """Return the network's score against each opponent, as {"won_against_NAME": score}; a draw counts half.

    The network plays the most probable move of its policy, without search. Games start with two random moves; the
    network plays both sides of each start.
    """
    evaluator = Evaluator(network)
    return {f"won_against_{name.replace(':', '_')}": _score(evaluator, name, games) for name in opponents}


def _score(evaluator: Evaluator, name: str, games: int) -> float:
    pairs = max(1, games // 2)
    boards = Boards(2 * pairs)
    random = np.random.default_rng(0)
    for _ in range(RANDOM_PLIES):
        columns = random.integers(boards.shape.columns, size=pairs)
        boards.step(np.concatenate([columns, columns]))
    side = np.repeat([0, 1], pairs)  # the network is the first or the second player
    opponent = player(name, seed=0)
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
