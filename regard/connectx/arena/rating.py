"""Elo ratings, confidence intervals, and a sequential test that decides a match.

Elo ratings follow the Bradley-Terry model with draws (Davidson): with strengths e^a and e^b and a draw weight e^d,

    P(win) : P(draw) : P(loss)  =  e^a : e^(d + (a+b)/2) : e^b

This is a multinomial logit, whose likelihood has one maximum. Newton's method finds it, and the curvature there gives
the intervals. A weak normal prior (standard deviation 1,000 Elo) keeps the rating finite if a player has won all its
games.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray

ELO = 400 / math.log(10)  # Elo points per unit of a natural logarithm
Z = 1.959964  # half width of the 95 % interval of a normal variable, in standard deviations
PRIOR = 1000 / ELO
MIN_PAIRS = 8  # pairs of games before a match can be decided: the test assumes that a mean is nearly normal


@dataclass(frozen=True)
class Rating:
    """Elo relative to the mean of all players, and half the width of its 95 % interval."""

    elo: float
    margin: float


def bradley_terry(wins: Array, draws: Array) -> list[Rating]:
    """Return ratings from counts (players, players): `wins[i, j]` of i against j, and `draws[i, j]` = `draws[j, i]`.

    >>> [round(r.elo) for r in bradley_terry(np.array([[0, 75], [25, 0]]), np.zeros((2, 2)))]
    [95, -95]
    """
    players = len(wins)
    rows, counts = [], []
    for i in range(players):
        for j in range(i + 1, players):
            features = np.zeros((3, players + 1))
            features[0, i] = features[2, j] = 1
            features[1, [i, j]], features[1, players] = 0.5, 1
            rows.append(features)
            counts.append([wins[i, j], draws[i, j], wins[j, i]])
    if not rows:
        return [Rating(0.0, 0.0)] * players
    x, n = np.array(rows), np.array(counts, np.float64)  # (pairs, 3, players + 1), (pairs, 3)
    precision = np.full(players + 1, 1 / PRIOR**2)  # of the normal prior of each strength
    precision[players] = 1 / 3**2  # the draw weight has standard deviation 3 on the logarithmic scale
    expected = np.zeros(players + 1)
    if not np.any(draws):
        expected[players] = -40.0  # no game was drawn: the model gives draws almost no probability
    theta = expected.copy()
    for _ in range(100):
        logits = x @ theta
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        total = n.sum(1)
        gradient = np.einsum("pkf,pk->f", x, n - total[:, None] * p) - precision * (theta - expected)
        mean = np.einsum("pkf,pk->pf", x, p)
        curvature = np.einsum("pkf,pkg,pk,p->fg", x, x, p, total) - np.einsum("pf,pg,p->fg", mean, mean, total)
        curvature += np.diag(precision)
        step = np.linalg.solve(curvature, gradient)
        theta = theta + step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-10:
            break
    centred = np.eye(players) - 1 / players
    covariance = centred @ np.linalg.inv(curvature)[:players, :players] @ centred
    elo = centred @ theta[:players] * ELO
    margins = Z * ELO * np.sqrt(np.maximum(np.diag(covariance), 0))
    return [Rating(float(e), float(m)) for e, m in zip(elo, margins, strict=True)]


def score_interval(wins: int, draws: int, losses: int) -> tuple[float, float]:
    """Return the 95 % interval of the share of points: Wilson's interval, with the smaller variance that draws cause.

    >>> [round(bound, 3) for bound in score_interval(10, 0, 0)], [round(b, 2) for b in score_interval(30, 40, 30)]
    ([0.722, 1.0], [0.42, 0.58])
    """
    games = wins + draws + losses
    if not games:
        return 0.0, 1.0
    mean = (wins + draws / 2) / games
    variance = (wins * (1 - mean) ** 2 + draws * (0.5 - mean) ** 2 + losses * mean**2) / games
    # Number of games without draws that has the same variance. If all games are draws, the number of games is used.
    n = games * mean * (1 - mean) / variance if variance > 0 and 0 < mean < 1 else games
    middle = (mean + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(mean * (1 - mean) / n + Z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def log_likelihood_ratio(pairs: Sequence[float], elo: float) -> float:
    """Return the log-likelihood ratio of "better by `elo`" against "equal".

    `pairs` are the mean points, 0 to 1, of two games from one opening with sides exchanged. They count as one result,
    because an opening may favour a side. The mean is modelled as normal with the observed variance; one win, one draw
    and one loss are added to the variance, so that a few equal results do not appear certain.
    """
    better = 1 / (1 + 10 ** (-elo / 400))
    n = len(pairs)
    if not n:
        return 0.0
    mean = sum(pairs) / n
    variance = sum((p - mean) ** 2 for p in [*pairs, 0.0, 0.5, 1.0]) / (n + 3)
    return n * (better - 0.5) * (2 * mean - 0.5 - better) / (2 * variance)


def sequential_test(pairs: Sequence[float], elo: float, error: float = 0.05) -> str:
    """Apply Wald's sequential test in both directions; return "better", "worse", "equal", or "" if undecided.

    "better" and "worse" refer to the first player, and are wrong in about `error` of all matches between equal players.
    "equal" means that neither is better by `elo`, and is wrong in about `error` of all matches where one is.

    >>> test = sequential_test
    >>> test([0.75, 1.0] * 10, elo=50), test([0.5] * 400, elo=50), test([0.5] * 10, elo=50)
    ('better', 'equal', '')
    """
    if elo <= 0:
        raise ValueError(f"elo must be greater than 0, got {elo:g}")
    if len(pairs) < MIN_PAIRS:
        return ""
    accept, reject = math.log((1 - error) / (error / 2)), math.log(error / (1 - error / 2))
    first = log_likelihood_ratio(pairs, elo)
    second = log_likelihood_ratio([1 - p for p in pairs], elo)
    if first >= accept or second >= accept:
        return "better" if first >= accept else "worse"
    return "equal" if first <= reject and second <= reject else ""
