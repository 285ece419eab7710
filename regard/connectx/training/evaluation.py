"""What a network's moves are worth, on labelled positions that it has not learnt from."""

from typing import Any

import numpy as np

from regard.connectx.data.labels import FULL, Labels
from regard.connectx.game.board_batch import planes_of
from regard.models import BoardNet, Evaluator

THIRDS = ("begin", "middle", "end")  # of the board's squares, by stones on it


def some_of_each(labels: Labels, count: int) -> Labels:
    """At most so many positions of each third of the board, always the same ones; by number of stones as even as may
    be."""
    cells = labels.shape.rows * labels.shape.columns
    third = np.minimum(3 * labels.stones // cells, 2)
    random = np.random.default_rng(0)
    chosen = []
    for number in range(len(THIRDS)):
        here = random.permutation(np.flatnonzero(third == number))
        stones = labels.stones[here]
        # The n-th position of its number of stones comes before all (n + 1)-th ones.
        turn = np.empty(len(here), np.int64)
        for ply in np.unique(stones):
            turn[stones == ply] = np.arange((stones == ply).sum())
        chosen.append(here[np.argsort(turn, kind="stable")[:count]])
    return labels[np.sort(np.concatenate(chosen))]


def grade(net: BoardNet, labels: Labels, *, mirror: bool = False, by_ply: bool = True) -> dict[str, Any]:
    """Shares of moves: `error`, those that lose something, and `perfect`; the mean of the thirds, each, and by ply.

    `doubt` says the same as `error`, but finer: the mean of −log(probability of the moves that lose nothing). Networks
    that a few thousand moves cannot tell apart, it can.
    """
    evaluator = Evaluator(net, mirror=mirror)
    judged = evaluator(planes_of(labels.position, labels.mask, labels.shape), labels.scores != FULL)
    scores = labels.scores.astype(np.int64)
    best = scores.max(1)
    chosen = scores[np.arange(len(scores)), judged.policy.argmax(1)]
    lost, perfect = np.sign(chosen) != np.sign(best), chosen == best
    wrong = np.abs(judged.value - np.sign(best))
    third = np.minimum(3 * labels.stones // (labels.shape.rows * labels.shape.columns), 2)
    present = [number for number in range(3) if (third == number).any()]
    row: dict[str, Any] = {"error": float(np.mean([lost[third == number].mean() for number in present]))}
    row["perfect"] = float(np.mean([perfect[third == number].mean() for number in present]))
    keeps = (np.sign(scores) == np.sign(best)[:, None]) & (labels.scores != FULL)
    doubt = -np.log(np.maximum((judged.policy * keeps).sum(1), 1e-6))
    row["doubt"] = float(np.mean([doubt[third == number].mean() for number in present]))
    row["value_error"] = float(wrong.mean())
    for number in present:
        row[f"error_{THIRDS[number]}"] = float(lost[third == number].mean())
        row[f"perfect_{THIRDS[number]}"] = float(perfect[third == number].mean())
    if by_ply:
        for ply in np.unique(labels.stones).tolist():
            row[f"error_at_{ply}"] = float(lost[labels.stones == ply].mean())
    return row
