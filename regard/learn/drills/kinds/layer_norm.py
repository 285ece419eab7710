"""Drill on the residual connection and layer norm."""

from random import Random

from regard.languages import bilingual
from regard.learn.drills.drill import Mistake, Step, Values
from regard.learn.drills.exact_numbers import Exact, exact
from regard.learn.drills.matrices import Matrix, each, matrix, total
from regard.learn.drills.task import Task

NO_RESIDUAL = bilingual("It looks as if the residual was forgotten: x + f(x).", "看起来忘了残差：x + f(x)。")
BY_VARIANCE = bilingual(
    "It looks as if you divided by the variance; divide by its root.", "看起来除以了方差；应当除以方差的平方根。"
)
NOT_CENTRED = bilingual("It looks as if the mean was not subtracted.", "看起来没有减去均值。")
SAMPLE = bilingual("Layer norm divides by n, not by n − 1.", "层归一化除以 n，而不是 n − 1。")


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


def _root(value: Exact | float) -> Exact | float:
    root = exact(round(float(value) ** 0.5))
    return root if root * root == value else float(value) ** 0.5
