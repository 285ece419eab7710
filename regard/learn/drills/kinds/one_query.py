"""Drills on one row: softmax alone, the weighted sum alone, scaling, one query."""

from fractions import Fraction
from random import Random

from regard.languages import bilingual
from regard.learn.drills.attention_steps import (
    exponentials,
    masked,
    normalised,
    output,
    row_sums,
    scaled,
    scores,
    weights,
)
from regard.learn.drills.drill import Step
from regard.learn.drills.exact_numbers import ln, times
from regard.learn.drills.matrices import matrix
from regard.learn.drills.task import Task

MULTIPLES = (1, 2, 3, 4, 5, 6)  # e^s of a kind score


def softmax_alone(random: Random) -> Task:
    """A few scores that are logarithms of small numbers."""
    keys = random.choice((2, 3, 3, 4))
    numbers = [random.choice(MULTIPLES) for _ in range(keys)]
    return Task(
        bilingual("Softmax by hand", "手算 softmax"),
        f"One query has these scores s with {keys} keys. Turn them into weights.",
        f"一个查询与 {keys} 个键的分数 s 如下，把它们变成权重。",
        {"s": matrix([[ln(n) for n in numbers]])},
        (exponentials("s"), row_sums(), normalised()),
    )


def weighted_sum(random: Random) -> Task:
    """Weights that are given, values of width 2."""
    parts = [random.choice(MULTIPLES) for _ in range(3)]
    given = {
        "weights": matrix([[Fraction(part, sum(parts)) for part in parts]]),
        "V": matrix([[random.randint(0, 12) for _ in range(2)] for _ in range(3)]),
    }
    return Task(
        bilingual("The weighted sum", "加权求和"),
        "One query has these weights on three keys; V holds a value of width 2 for each.",
        "一个查询对三个键的权重如下；V 的每一行是一个宽度为 2 的值。",
        given,
        (output(k=None),),
    )


def score_matrix(random: Random) -> Task:
    """Q·Kᵀ of whole numbers."""
    given = {name: matrix([[random.randint(-2, 3) for _ in range(2)] for _ in range(2)]) for name in ("Q", "K", "V")}
    return Task(
        bilingual("The score matrix", "分数矩阵"),
        "Two tokens, queries, keys and values of width 2. Compute all scores at once.",
        "两个词元，查询、键和值的宽度都是 2。一次算出全部分数。",
        given,
        (scores(),),
    )


def scaling(random: Random) -> Task:
    """Scores of heads of width 4 or 16, which come down to logarithms."""
    d_k = random.choice((4, 16))
    root = {4: 2, 16: 4}[d_k]
    numbers = [random.choice(MULTIPLES) for _ in range(3)]
    given = {"scores": matrix([[times(root, ln(n)) for n in numbers]])}
    return Task(
        bilingual("Scale, then softmax", "先缩放，再 softmax"),
        f"One query's scores with three keys, in a head of width d_k = {d_k}.",
        f"一个查询与三个键的分数如下，头的宽度 d_k = {d_k}。",
        given,
        (scaled(d_k), exponentials("scaled"), row_sums(), normalised()),
    )


def one_query(random: Random) -> Task:
    """All of attention for one query, width 2 without scaling trouble: the scores are told to be used as they are."""
    given = {
        "Q": matrix([[ln(2), ln(3)]] if random.random() < 0.5 else [[ln(3), ln(2)]]),
        "K": matrix([[random.randint(0, 2) for _ in range(2)] for _ in range(3)]),
        "V": matrix([[random.randint(0, 12) for _ in range(2)] for _ in range(3)]),
    }
    return Task(
        bilingual("One query, unscaled", "一个查询，不缩放"),
        "One query, three keys and values. Use the scores as they are, without scaling (scale = 1).",
        "一个查询，三个键和值。分数不缩放，直接使用（scale = 1）。",
        given,
        (scores(), exponentials("scores"), row_sums(), normalised(), output()),
    )


def one_scaled_query(random: Random) -> Task:
    """All of attention for one query in a head of width 4, with one key hidden."""
    hidden = random.randrange(3)
    given = {
        "Q": matrix([[times(2 * random.randint(0, 1), ln(p)) for p in (2, 3, 2, 3)]]),
        "K": matrix([[random.randint(0, 1) for _ in range(4)] for _ in range(3)]),
        "V": matrix([[random.randint(0, 12)] for _ in range(3)]),
        "M": matrix([[int(place != hidden) for place in range(3)]]),
    }
    steps: tuple[Step, ...] = (
        scores(v=None),
        scaled(4),
        masked(),
        weights("masked", unmasked="scaled"),
        output(k=None),
    )
    return Task(
        bilingual("One query with a hidden key", "一个查询，遮住一个键"),
        "One query in a head of width d_k = 4, three keys and values. In the mask M, 1 means visible.",
        "一个查询，头的宽度 d_k = 4，三个键和值。掩码 M 中 1 表示可见。",
        given,
        steps,
    )


def cross(random: Random) -> Task:
    """Two queries of one sequence, three keys and values of another."""
    given = {
        "Q": matrix([[times(random.randint(0, 2), ln(2))] for _ in range(2)]),
        "K": matrix([[random.randint(-1, 2)] for _ in range(3)]),
        "V": matrix([[random.randint(0, 12)] for _ in range(3)]),
    }
    return Task(
        bilingual("Cross-attention", "交叉注意力"),
        "The decoder asks with two queries; the encoder offers three keys and values, all of width d_k = 1.",
        "解码器有两个查询，编码器提供三个键和值，宽度都是 d_k = 1。",
        given,
        (scores(), weights("scores"), output()),
    )
