"""Drills on scores, softmax and the weighted sum, mostly for one query."""

from fractions import Fraction
from random import Random

from regard.learn.drills.attention_steps import masked, output, scaled, scores, softmax_steps, weights
from regard.learn.drills.drill import Task
from regard.learn.drills.exact_numbers import ln, times
from regard.learn.drills.matrices import Matrix, matrix

EXPONENTIALS = (1, 2, 3, 4, 5, 6)  # scores are logarithms of these, so that e^s is a small integer


def softmax_alone(random: Random) -> Task:
    """Return a drill on the softmax of two to four scores."""
    keys = random.choice((2, 3, 3, 4))
    s = matrix([[ln(random.choice(EXPONENTIALS)) for _ in range(keys)]])
    return Task({"s": s}, softmax_steps("s"), {"keys": keys})


def weighted_sum(random: Random) -> Task:
    """Return a drill on the output for given weights and values of width 2."""
    parts = [random.choice(EXPONENTIALS) for _ in range(3)]
    inputs = {"weights": matrix([[Fraction(part, sum(parts)) for part in parts]]), "V": _integers(random, 3, 2, 0, 12)}
    return Task(inputs, (output(keys_given=False),))


def score_matrix(random: Random) -> Task:
    """Return a drill on Q·Kᵀ of integers."""
    return Task({name: _integers(random, 2, 2, -2, 3) for name in ("Q", "K", "V")}, (scores(),))


def scaling(random: Random) -> Task:
    """Return a drill on scaling and softmax in a head of width 4 or 16."""
    d_k = random.choice((4, 16))
    root = {4: 2, 16: 4}[d_k]
    inputs = {"scores": matrix([[times(root, ln(random.choice(EXPONENTIALS))) for _ in range(3)]])}
    return Task(inputs, (scaled(d_k), *softmax_steps("scaled")), {"d_k": d_k})


def one_query(random: Random) -> Task:
    """Return a drill on attention of one query of width 2, without scaling."""
    inputs = {
        "Q": matrix([[ln(2), ln(3)]] if random.random() < 0.5 else [[ln(3), ln(2)]]),
        "K": _integers(random, 3, 2, 0, 2),
        "V": _integers(random, 3, 2, 0, 12),
    }
    return Task(inputs, (scores(), *softmax_steps("scores"), output()))


def one_scaled_query(random: Random) -> Task:
    """Return a drill on attention of one query in a head of width 4, with one hidden key."""
    hidden = random.randrange(3)
    inputs = {
        "Q": matrix([[times(2 * random.randint(0, 1), ln(p)) for p in (2, 3, 2, 3)]]),
        "K": _integers(random, 3, 4, 0, 1),
        "V": _integers(random, 3, 1, 0, 12),
        "M": matrix([[int(key != hidden) for key in range(3)]]),
    }
    steps = (
        scores(values_given=False),
        scaled(4),
        masked(),
        weights("masked", unmasked="scaled"),
        output(keys_given=False),
    )
    return Task(inputs, steps)


def cross(random: Random) -> Task:
    """Return a drill on cross-attention: two queries of one sequence, three keys and values of another."""
    inputs = {
        "Q": matrix([[times(random.randint(0, 2), ln(2))] for _ in range(2)]),
        "K": _integers(random, 3, 1, -1, 2),
        "V": _integers(random, 3, 1, 0, 12),
    }
    return Task(inputs, (scores(), weights("scores"), output()))


def _integers(random: Random, rows: int, columns: int, low: int, high: int) -> Matrix:
    return matrix([[random.randint(low, high) for _ in range(columns)] for _ in range(rows)])
