"""Drill on the online softmax of FlashAttention."""

from random import Random

from regard.languages import bilingual
from regard.learn.drills.drill import Mistake, Step, Values
from regard.learn.drills.exact_numbers import Exact, exact, exp, ln
from regard.learn.drills.matrices import Matrix, each, matrix, product, sums
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


def _largest(row: Matrix) -> Matrix:
    return [[max(row[0], key=float)]]
