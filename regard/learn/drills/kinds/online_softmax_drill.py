"""Drill on the online softmax of FlashAttention."""

from random import Random

from regard.learn.drills.drill import Mistake, Task, Values, make_step
from regard.learn.drills.exact_numbers import Exact, exact, exp, ln
from regard.learn.drills.matrices import Matrix, map_cells, matrix, product, sums


def online(random: Random) -> Task:
    """Return a drill on the softmax over four keys that arrive in two blocks."""
    low, high = sorted(random.sample((1, 2, 3, 4, 6), 2))
    first, second = [low, random.randint(1, low)], [high, random.randint(1, high)]
    inputs = {
        "s1": matrix([[ln(n) for n in first]]),
        "V1": matrix([[random.randint(0, 12)] for _ in range(2)]),
        "s2": matrix([[ln(n) for n in second]]),
        "V2": matrix([[random.randint(0, 12)] for _ in range(2)]),
    }

    def exponentials(x: Values, block: int, maximum: str) -> Matrix:
        return map_cells(x[f"s{block}"], lambda s: exp(s - x[maximum][0][0]))

    def sum_of_both(x: Values, factor: Exact | float) -> Matrix:
        return [[x["l1"][0][0] * factor + sums(exponentials(x, 2, "m2"))[0][0]]]

    def values_of_both(x: Values, factor: Exact | float) -> Matrix:
        return [[x["a1"][0][0] * factor + product(exponentials(x, 2, "m2"), x["V2"])[0][0]]]

    steps = (
        make_step("m1", lambda x: _largest(x["s1"])),
        make_step("l1", lambda x: sums(exponentials(x, 1, "m1"))),
        make_step("a1", lambda x: product(exponentials(x, 1, "m1"), x["V1"])),
        make_step("m2", lambda x: _largest([[*x["m1"][0], *x["s2"][0]]])),
        make_step(
            "factor",
            lambda x: [[exp(x["m1"][0][0] - x["m2"][0][0])]],
            Mistake("upside-down", lambda x: [[exp(x["m2"][0][0] - x["m1"][0][0])]]),
        ),
        make_step(
            "l2",
            lambda x: sum_of_both(x, x["factor"][0][0]),
            Mistake("not-rescaled", lambda x: sum_of_both(x, exact(1))),
        ),
        make_step(
            "a2",
            lambda x: values_of_both(x, x["factor"][0][0]),
            Mistake("not-rescaled", lambda x: values_of_both(x, exact(1))),
        ),
        make_step(
            "output",
            lambda x: [[x["a2"][0][0] / x["l2"][0][0]]],
            Mistake("not-divided", lambda x: x["a2"], "accumulator-not-divided"),
            text_key="online-output",
        ),
    )
    return Task(inputs, steps)


def _largest(row: Matrix) -> Matrix:
    return [[max(row[0], key=float)]]
