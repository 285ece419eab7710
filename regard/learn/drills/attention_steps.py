"""The steps of attention by hand, each with its common mistakes.

A step reads its inputs by name: the given Q, K, V and mask M (1 = visible), and the results of earlier steps.
"""

import math

from regard.learn.drills.drill import Compute, Mistake, Step, Values, make_step
from regard.learn.drills.exact_numbers import Exact, exact, exp
from regard.learn.drills.matrices import Matrix, divide_rows, map_cells, product, softmax, sums, total, transpose, where


def scores(values_given: bool = True) -> Step:
    """Return the step scores = Q·Kᵀ; `values_given` adds the mistake of using V in place of K."""
    mistakes = [Mistake("no-transpose", lambda x: product(x["Q"], x["K"]))]
    if values_given:
        mistakes.append(Mistake("v-for-k", lambda x: product(x["Q"], transpose(x["V"]))))
    return make_step("scores", lambda x: product(x["Q"], transpose(x["K"])), *mistakes)


def scaled(d_k: int) -> Step:
    """Return the step scaled = scores / √d_k."""
    root = exact(math.isqrt(d_k))

    def times(factor: Exact | float) -> Compute:
        return lambda x: map_cells(x["scores"], lambda s: s * factor)

    return make_step(
        "scaled",
        times(exact(1) / root),
        Mistake("not-scaled", times(exact(1))),
        Mistake("scaled-by-d", times(exact(1) / exact(d_k))),
        Mistake("times-root", times(root)),
        d_k=d_k,
    )


def masked(source: str = "scaled") -> Step:
    """Return the step "masked": the matrix named by `source`, with −∞ where the mask M is 0."""
    return make_step(
        "masked",
        lambda x: where(x["M"], x[source], -math.inf),
        Mistake("mask-forgotten", lambda x: x[source]),
        Mistake("zero-for-infinity", lambda x: where(x["M"], x[source], exact(0))),
        Mistake("mask-inverted", lambda x: where(map_cells(x["M"], lambda m: exact(1) - m), x[source], -math.inf)),
    )


def softmax_steps(source: str) -> tuple[Step, Step, Step]:
    """Return the softmax of the matrix named by `source` in three steps: exponentials, sums of the rows, weights."""
    return (
        make_step(
            "exponentials", lambda x: map_cells(x[source], exp), Mistake("not-exponentials", lambda x: x[source])
        ),
        make_step(
            "sums",
            lambda x: sums(x["exponentials"]),
            Mistake("column-sums", lambda x: sums(transpose(x["exponentials"]))),
        ),
        make_step(
            "weights",
            lambda x: divide_rows(x["exponentials"], x["sums"]),
            Mistake("not-divided", lambda x: x["exponentials"]),
            Mistake("by-largest", lambda x: [[e / max(row, key=float) for e in row] for row in x["exponentials"]]),
            Mistake("wrong-axis", lambda x: _divided_by_column_sums(x["exponentials"])),
            text_key="normalised-rows",
        ),
    )


def weights(source: str, *mistakes: Mistake, unmasked: str | None = None) -> Step:
    """Return the step weights = softmax(source); `unmasked` names the scores before the mask, for mask mistakes."""
    with_mask = (
        ()
        if unmasked is None
        else (
            Mistake("mask-forgotten", lambda x: softmax(x[unmasked])),
            Mistake("mask-after-softmax", lambda x: where(x["M"], softmax(x[unmasked]), exact(0))),
            Mistake("zero-for-infinity", lambda x: softmax(where(x["M"], x[unmasked], exact(0)))),
        )
    )
    return make_step(
        "weights",
        lambda x: softmax(x[source]),
        *mistakes,
        *with_mask,
        Mistake("wrong-axis", lambda x: transpose(softmax(transpose(x[source])))),
        Mistake("no-exponential", lambda x: divide_rows(x[source], sums(x[source]))),
    )


def output(keys_given: bool = True) -> Step:
    """Return the step output = weights · V; `keys_given` adds the mistake of using K in place of V."""

    def for_each_query(x: Values, row: list[Exact | float]) -> Matrix:
        return [row for _ in x["weights"]]

    def value_sums(x: Values) -> list[Exact | float]:
        return [total(column) for column in transpose(x["V"])]

    mistakes = [
        Mistake("plain-mean", lambda x: for_each_query(x, [s / exact(len(x["V"])) for s in value_sums(x)])),
        Mistake("not-weighted", lambda x: for_each_query(x, value_sums(x))),
        Mistake("weights-transposed", lambda x: product(transpose(x["weights"]), x["V"])),
    ]
    if keys_given:
        mistakes.insert(0, Mistake("k-for-v", lambda x: product(x["weights"], x["K"])))
    return make_step("output", lambda x: product(x["weights"], x["V"]), *mistakes)


def softmax_scaled_by_d_model(source: str, d_model: int) -> Mistake:
    """Return the mistake of scaling by √d_model, for heads of width 1, where √d_k is 1."""
    factor = 1 / math.sqrt(d_model)
    return Mistake("scaled-by-d-model", lambda x: softmax(map_cells(x[source], lambda s: s * factor)))


def _divided_by_column_sums(e: Matrix) -> Matrix:
    columns = transpose(e)
    return transpose(divide_rows(columns, sums(columns)))
