"""Drills beyond one softmax: the online softmax of FlashAttention, and residual with layer norm."""

from random import Random

from regard.languages import bilingual
from regard.learn.drills.drill import Mistake, Step, Values
from regard.learn.drills.exact import Exact, exact, exp, ln
from regard.learn.drills.matrices import Matrix, each, matrix, product, sums, total
from regard.learn.drills.task import Task

NO_RESCALE = bilingual(
    "It looks as if the first block was not rescaled: its exponentials were taken against the old maximum.",
    "看起来没有给第一块重新缩放：它的指数是相对旧的最大值算的。",
)
UPSIDE_DOWN = bilingual(
    "Upside down: it is e^(old maximum − new maximum), at most 1.",
    "倒过来了：应当是 e^(旧最大值 − 新最大值)，不超过 1。",
)
NOT_DIVIDED = bilingual("It still has to be divided by the sum.", "还要除以总和。")
NO_RESIDUAL = bilingual("It looks as if the residual was forgotten: x + f(x).", "看起来忘了残差：x + f(x)。")
BY_VARIANCE = bilingual(
    "It looks as if you divided by the variance; divide by its root.", "看起来除以了方差；应当除以方差的平方根。"
)
NOT_CENTRED = bilingual("It looks as if the mean was not subtracted.", "看起来没有减去均值。")
SAMPLE = bilingual("Layer norm divides by n, not by n − 1.", "层归一化除以 n，而不是 n − 1。")


def online(random: Random) -> Task:
    """Softmax over four keys that come in two blocks, as FlashAttention sees them."""
    low, high = sorted(random.sample((1, 2, 3, 4, 6), 2))
    first, second = [low, random.randint(1, low)], [high, random.randint(1, high)]
    given = {
        "s1": matrix([[ln(n) for n in first]]),
        "V1": matrix([[random.randint(0, 12)] for _ in range(2)]),
        "s2": matrix([[ln(n) for n in second]]),
        "V2": matrix([[random.randint(0, 12)] for _ in range(2)]),
    }

    def against(x: Values, block: int, maximum: str) -> Matrix:
        return each(x[f"s{block}"], lambda s: exp(s - x[maximum][0][0]))

    def factor(x: Values) -> Exact | float:
        return x["factor"][0][0]

    def joined(x: Values, old: str, rescale: bool) -> Matrix:
        new = against(x, 2, "m2")
        kept = x[old][0][0] * (factor(x) if rescale else exact(1))
        return [[kept + (sums(new) if old == "l1" else product(new, x["V2"]))[0][0]]]

    steps = (
        Step("m1", bilingual("the maximum of the first block", "第一块的最大值"), lambda x: _largest(x["s1"])),
        Step(
            "l1",
            bilingual("Σ e^(s − m1) over the first block", "第一块的 Σ e^(s − m1)"),
            lambda x: sums(against(x, 1, "m1")),
        ),
        Step(
            "a1",
            bilingual("Σ e^(s − m1)·v over the first block", "第一块的 Σ e^(s − m1)·v"),
            lambda x: product(against(x, 1, "m1"), x["V1"]),
        ),
        Step(
            "m2",
            bilingual("the maximum after both blocks", "两块之后的最大值"),
            lambda x: _largest([[*x["m1"][0], *x["s2"][0]]]),
        ),
        Step(
            "factor",
            bilingual("the factor e^(m1 − m2) that rescales the first block", "给第一块重新缩放的因子 e^(m1 − m2)"),
            lambda x: [[exp(x["m1"][0][0] - x["m2"][0][0])]],
            (Mistake("upside-down", UPSIDE_DOWN, lambda x: [[exp(x["m2"][0][0] - x["m1"][0][0])]]),),
        ),
        Step(
            "l2",
            bilingual("the sum after both blocks", "两块之后的总和"),
            lambda x: joined(x, "l1", True),
            (Mistake("not-rescaled", NO_RESCALE, lambda x: joined(x, "l1", False)),),
        ),
        Step(
            "a2",
            bilingual("Σ e^(s − m2)·v after both blocks", "两块之后的 Σ e^(s − m2)·v"),
            lambda x: joined(x, "a1", True),
            (Mistake("not-rescaled", NO_RESCALE, lambda x: joined(x, "a1", False)),),
        ),
        Step(
            "output",
            bilingual("the output", "输出"),
            lambda x: [[x["a2"][0][0] / x["l2"][0][0]]],
            (Mistake("not-divided", NOT_DIVIDED, lambda x: x["a2"]),),
        ),
    )
    return Task(
        bilingual("Online softmax in two blocks", "分两块的在线 softmax"),
        "One query reads its keys in two blocks, scores s1 then s2, and never keeps more than a maximum, a sum and an "
        "accumulated value.",
        "一个查询分两块读取键，先是分数 s1，再是 s2；手里始终只保留一个最大值、一个和、一个累加值。",
        given,
        steps,
    )


def layer_norm(random: Random) -> Task:
    """Residual and layer norm of four numbers whose variance is a square."""
    middle, spread = random.randint(1, 6), random.choice((2, 3, 4))
    signs = random.sample((1, 1, -1, -1), 4)
    after = [middle + spread * sign for sign in signs]
    sublayer = [random.randint(-3, 3) for _ in range(4)]
    given = {
        "x": matrix([[a - f for a, f in zip(after, sublayer, strict=True)]]),
        "f": matrix([sublayer]),
    }

    def centred(x: Values) -> Matrix:
        return each(x["sum"], lambda value: value - x["mean"][0][0])

    def variance(x: Values, count: int) -> Matrix:
        return [[total([value * value for value in centred(x)[0]]) / exact(count)]]

    def over_root(values: Matrix, x: Values) -> Matrix:
        root = _root(x["variance"][0][0])
        return each(values, lambda value: value / root)

    steps = (
        Step(
            "sum",
            bilingual("the residual: x + f", "残差：x + f"),
            lambda x: [[a + b for a, b in zip(x["x"][0], x["f"][0], strict=True)]],
            (Mistake("no-residual", NO_RESIDUAL, lambda x: x["f"]),),
        ),
        Step("mean", bilingual("its mean", "均值"), lambda x: [[total(x["sum"][0]) / exact(4)]]),
        Step(
            "variance",
            bilingual("its variance", "方差"),
            lambda x: variance(x, 4),
            (Mistake("sample-variance", SAMPLE, lambda x: variance(x, 3)),),
        ),
        Step(
            "normalised",
            bilingual("the layer norm, with scale 1 and shift 0 and without ε", "层归一化（缩放 1、平移 0、不加 ε）"),
            lambda x: over_root(centred(x), x),
            (
                Mistake(
                    "by-variance", BY_VARIANCE, lambda x: each(centred(x), lambda value: value / x["variance"][0][0])
                ),
                Mistake("not-centred", NOT_CENTRED, lambda x: over_root(x["sum"], x)),
            ),
        ),
    )
    return Task(
        bilingual("Residual and layer norm", "残差与层归一化"),
        "A token x and what a sublayer made of it, f = Sublayer(x). Compute LayerNorm(x + f).",
        "一个词元 x，以及子层对它的输出 f = Sublayer(x)。计算 LayerNorm(x + f)。",
        given,
        steps,
    )


def _largest(row: Matrix) -> Matrix:
    return [[max(row[0], key=float)]]


def _root(value: Exact | float) -> Exact | float:
    root = exact(round(float(value) ** 0.5))
    return root if root * root == value else float(value) ** 0.5
