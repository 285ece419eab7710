"""The steps of attention as a learner takes them by hand, each with the mistakes that are usually made in it.

A step reads what it needs by name from the values so far: Q, K, V, a mask M with 1 for visible, and the results of
earlier steps.
"""

import math
from collections.abc import Callable

from regard.languages import Bilingual, bilingual
from regard.learn.drills.drill import Mistake, Step, Values
from regard.learn.drills.exact_numbers import Exact, exact, exp
from regard.learn.drills.matrices import (
    Matrix,
    divided,
    each,
    product,
    softmax,
    sums,
    total,
    transposed,
    where,
)

Take = Callable[[Values], Matrix]

NO_TRANSPOSE = bilingual(
    "This is Q·K without the transpose: a score is the dot product of a row of Q with a row of K.",
    "这是没有转置的 Q·K：分数是 Q 的一行与 K 的一行的点积。",
)
V_FOR_K = bilingual(
    "It looks as if V stood in for K: scores compare queries with keys; values come in only after the softmax.",
    "看起来把 V 当成了 K：分数是查询与键的比较，值要等到 softmax 之后才用到。",
)
K_FOR_V = bilingual(
    "It looks as if K stood in for V: the weights average the values, not the keys.",
    "看起来把 K 当成了 V：权重是用来对值加权平均的，不是对键。",
)
NOT_SCALED = bilingual("It looks as if the scaling was forgotten: divide by √d_k.", "看起来忘了缩放：要除以 √d_k。")
BY_D = bilingual(
    "It looks as if you divided by d_k; it is √d_k, the standard deviation of the dot product.",
    "看起来除以了 d_k；应当除以 √d_k，也就是点积的标准差。",
)
TIMES_ROOT = bilingual("It looks as if you multiplied by √d_k instead of dividing.", "看起来乘了 √d_k，应当是除。")
BY_D_MODEL = bilingual(
    "It looks as if you scaled by √d_model; each head scales by the root of its own width, √d_k.",
    "看起来按 √d_model 缩放了；每个头用的是自己的宽度 √d_k。",
)
NO_MASK = bilingual(
    "It looks as if the mask was forgotten: hidden places take −∞.", "看起来忘了掩码：被遮住的位置要填 −∞。"
)
ZERO_MASK = bilingual(
    "A hidden score is −∞, not 0: e⁰ = 1, so a score of 0 still takes weight.",
    "被遮住的分数是 −∞ 而不是 0：e⁰ = 1，分数为 0 仍然会分到权重。",
)
INVERTED = bilingual(
    "The mask is inverted: 1 means visible, and −∞ goes where it is 0.",
    "掩码反了：1 表示可见，要填 −∞ 的是等于 0 的位置。",
)
MASKED_LATE = bilingual(
    "It looks as if the mask came after the softmax: the row no longer adds up to 1. Mask the scores, then normalise.",
    "看起来是在 softmax 之后才做掩码：这一行加起来不再等于 1。应当先遮住分数，再归一化。",
)
WRONG_AXIS = bilingual(
    "Softmax over the wrong axis: your columns add up to 1. Each query's row must.",
    "softmax 的轴弄错了：你的结果是每列之和为 1，应当是每个查询（每行）之和为 1。",
)
NO_EXP = bilingual(
    "It looks as if you divided the scores by their sum; softmax takes e^s of each score first.",
    "看起来直接用分数除以分数之和；softmax 要先对每个分数取 e^s。",
)
COLUMN_SUMS = bilingual(
    "These are the sums of the columns; each query's row has its own sum.", "这是各列之和；应当对每个查询（每行）求和。"
)
NOT_EXPONENTIALS = bilingual(
    "These are the scores themselves; take e^s of each: e^(ln 2) = 2.", "这还是分数本身；要取 e^s：e^(ln 2) = 2。"
)
NOT_DIVIDED = bilingual(
    "These are still the exponentials; divide each by its row's sum.", "这还是指数值；每个都要除以所在行的和。"
)
BY_LARGEST = bilingual(
    "It looks as if you divided by the largest; divide by the sum.", "看起来除以了最大值；应当除以总和。"
)
NOT_WEIGHTED = bilingual("This adds the values up without their weights.", "这是把值直接相加，没有乘权重。")
PLAIN_MEAN = bilingual(
    "This is the plain mean of the values; each counts as much as its weight says.",
    "这是值的简单平均；每个值所占的比重由权重决定。",
)
WEIGHTS_TURNED = bilingual(
    "It looks as if the weights were transposed: output row i is Σ_j weights[i, j]·V[j].",
    "看起来把权重转置了：输出的第 i 行是 Σ_j weights[i, j]·V[j]。",
)


def take(name: str) -> Take:
    """The value of this name."""
    return lambda values: values[name]


def scores(q: str = "Q", k: str = "K", name: str = "scores", v: str | None = "V") -> Step:
    """Q·Kᵀ."""
    mistakes = [
        Mistake("no-transpose", NO_TRANSPOSE, lambda x: product(x[q], x[k])),
        *([Mistake("v-for-k", V_FOR_K, lambda x: product(x[q], transposed(x[v])))] if v else []),
    ]
    ask = bilingual(f"{q}·{k}ᵀ, a row for each query, a column for each key", f"{q}·{k}ᵀ：每行一个查询，每列一个键")
    return Step(name, ask, lambda x: product(x[q], transposed(x[k])), tuple(mistakes))


def scaled(d_k: int, of: str = "scores", name: str = "scaled") -> Step:
    """Scores ÷ √d_k."""
    root = exact(math.isqrt(d_k))

    def by(factor: Exact | float) -> Take:
        return lambda x: each(x[of], lambda s: s * factor)

    mistakes = (
        Mistake("not-scaled", NOT_SCALED, by(exact(1))),
        Mistake("scaled-by-d", BY_D, by(exact(1) / exact(d_k))),
        Mistake("times-root", TIMES_ROOT, by(root)),
    )
    ask = bilingual(f"the scores divided by √d_k, d_k = {d_k}", f"分数除以 √d_k，d_k = {d_k}")
    return Step(name, ask, by(exact(1) / root), mistakes)


def masked(of: str = "scaled", name: str = "masked") -> Step:
    """−∞ where the mask M is 0."""
    mistakes = (
        Mistake("mask-forgotten", NO_MASK, take(of)),
        Mistake("zero-for-infinity", ZERO_MASK, lambda x: where(x["M"], x[of], exact(0))),
        Mistake("mask-inverted", INVERTED, lambda x: where(_inverted(x["M"]), x[of], -math.inf)),
    )
    ask = bilingual("the scores with the mask applied; write -inf for −∞", "加上掩码后的分数；−∞ 写作 -inf")
    return Step(name, ask, lambda x: where(x["M"], x[of], -math.inf), mistakes)


def exponentials(of: str, name: str = "exponentials") -> Step:
    """e^s."""
    mistake = Mistake("not-exponentials", NOT_EXPONENTIALS, take(of))
    return Step(name, bilingual("e^s of every score", "每个分数的 e^s"), lambda x: each(x[of], exp), (mistake,))


def row_sums(of: str = "exponentials", name: str = "sums") -> Step:
    """The sum of each row."""

    def of_columns(x: Values) -> Matrix:
        return sums(transposed(x[of]))

    ask = bilingual("the sum of each row", "每一行的和")
    return Step(name, ask, lambda x: sums(x[of]), (Mistake("column-sums", COLUMN_SUMS, of_columns),))


def normalised(of: str = "exponentials", by: str = "sums", name: str = "weights") -> Step:
    """e^s ÷ sum."""

    def by_largest(x: Values) -> Matrix:
        return [[e / max(row, key=float) for e in row] for row in x[of]]

    mistakes = (
        Mistake("not-divided", NOT_DIVIDED, take(of)),
        Mistake("by-largest", BY_LARGEST, by_largest),
        Mistake("wrong-axis", WRONG_AXIS, lambda x: _over_columns(x[of])),
    )
    ask = bilingual("the weights: each row divided by its sum", "权重：每行除以该行的和")
    return Step(name, ask, lambda x: divided(x[of], x[by]), mistakes)


def weights(
    of: str,
    name: str = "weights",
    ask: Bilingual | None = None,
    more: tuple[Mistake, ...] = (),
    unmasked: str | None = None,
) -> Step:
    """Softmax in one step; `unmasked` names the scores before the mask, for the mistakes made with it."""
    mistakes = [*more]
    if unmasked is not None:
        mistakes += [
            Mistake("mask-forgotten", NO_MASK, lambda x: softmax(x[unmasked])),
            Mistake("mask-after-softmax", MASKED_LATE, lambda x: where(x["M"], softmax(x[unmasked]), exact(0))),
            Mistake("zero-for-infinity", ZERO_MASK, lambda x: softmax(where(x["M"], x[unmasked], exact(0)))),
        ]
    mistakes += [
        Mistake("wrong-axis", WRONG_AXIS, lambda x: transposed(softmax(transposed(x[of])))),
        Mistake("no-exponential", NO_EXP, lambda x: divided(x[of], sums(x[of]))),
    ]
    said = ask or bilingual("the weights: softmax of each row", "权重：对每行做 softmax")
    return Step(name, said, lambda x: softmax(x[of]), tuple(mistakes))


def output(
    w: str = "weights", v: str = "V", k: str | None = "K", name: str = "output", ask: Bilingual | None = None
) -> Step:
    """weights · V."""

    def plain_mean(x: Values) -> Matrix:
        count = exact(len(x[v]))
        return [[total(column) / count for column in transposed(x[v])] for _ in x[w]]

    mistakes = [
        *([Mistake("k-for-v", K_FOR_V, lambda x: product(x[w], x[k]))] if k else []),
        Mistake("plain-mean", PLAIN_MEAN, plain_mean),
        Mistake("not-weighted", NOT_WEIGHTED, lambda x: [[total(c) for c in transposed(x[v])] for _ in x[w]]),
        Mistake("weights-transposed", WEIGHTS_TURNED, lambda x: product(transposed(x[w]), x[v])),
    ]
    said = ask or bilingual("the output: weights · V", "输出：权重 · V")
    return Step(name, said, lambda x: product(x[w], x[v]), tuple(mistakes))


def softmax_scaled_by_d_model(of: str, d_model: int) -> Mistake:
    """For heads of width 1, where √d_k is 1 and √d_model is not."""
    factor = 1 / math.sqrt(d_model)
    return Mistake("scaled-by-d-model", BY_D_MODEL, lambda x: softmax(each(x[of], lambda s: s * factor)))


def _inverted(mask: Matrix) -> Matrix:
    return each(mask, lambda m: exact(1) - m)


def _over_columns(e: Matrix) -> Matrix:
    columns = transposed(e)
    return transposed(divided(columns, sums(columns)))
