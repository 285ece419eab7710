"""Drill on the residual connection and layer norm."""

from random import Random

from regard.learn.drills.drill import Mistake, Task, Values, make_step
from regard.learn.drills.exact_numbers import Exact, exact
from regard.learn.drills.matrices import Matrix, map_cells, matrix, total


def layer_norm(random: Random) -> Task:
    """Return a drill on LayerNorm(x + f) of four numbers whose variance is a square."""
    mean, deviation = random.randint(1, 6), random.choice((2, 3, 4))
    signs = random.sample((1, 1, -1, -1), 4)
    sublayer = [random.randint(-3, 3) for _ in range(4)]
    inputs = {
        "x": matrix([[mean + deviation * sign - f for sign, f in zip(signs, sublayer, strict=True)]]),
        "f": matrix([sublayer]),
    }

    def centred(x: Values) -> Matrix:
        return map_cells(x["sum"], lambda value: value - x["mean"][0][0])

    def variance(x: Values, count: int) -> Matrix:
        return [[total([value * value for value in centred(x)[0]]) / exact(count)]]

    def divided_by_root(values: Matrix, x: Values) -> Matrix:
        root = _root(x["variance"][0][0])
        return map_cells(values, lambda value: value / root)

    steps = (
        make_step(
            "sum",
            lambda x: [[a + b for a, b in zip(x["x"][0], x["f"][0], strict=True)]],
            Mistake("no-residual", lambda x: x["f"]),
        ),
        make_step("mean", lambda x: [[total(x["sum"][0]) / exact(4)]]),
        make_step("variance", lambda x: variance(x, 4), Mistake("sample-variance", lambda x: variance(x, 3))),
        make_step(
            "normalised",
            lambda x: divided_by_root(centred(x), x),
            Mistake("by-variance", lambda x: map_cells(centred(x), lambda value: value / x["variance"][0][0])),
            Mistake("not-centred", lambda x: divided_by_root(x["sum"], x)),
        ),
    )
    return Task(inputs, steps)


def _root(value: Exact | float) -> Exact | float:
    root = exact(round(float(value) ** 0.5))
    return root if root * root == value else float(value) ** 0.5
