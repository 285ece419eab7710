"""Drills on whole matrices: causal masks, self-attention from its projections, several heads, grouped heads."""

from random import Random

from regard.learn.drills.attention_steps import masked, output, scores, softmax_scaled_by_d_model, weights
from regard.learn.drills.drill import Mistake, Step, Task, Values, make_step
from regard.learn.drills.exact_numbers import exact, ln, times
from regard.learn.drills.matrices import Matrix, columns, concatenate, matrix, product, softmax, transpose


def causal(random: Random) -> Task:
    """Return a drill on causal attention of three tokens."""
    inputs = {**_narrow_qkv(random, 3), "M": matrix([[1, 0, 0], [1, 1, 0], [1, 1, 1]])}
    return Task(inputs, (scores(), masked("scores"), weights("masked", unmasked="scores"), output()))


def causal_padded(random: Random) -> Task:
    """Return a drill on causal attention whose first token is padding, so that the first query has an empty row."""
    inputs = {
        **_narrow_qkv(random, 3),
        "Q": matrix([[times(random.randint(1, 2), ln(2))] for _ in range(3)]),
        "M": matrix([[0, 0, 0], [0, 1, 0], [0, 1, 1]]),
    }
    mean = [[exact(1) / exact(3)] * 3]
    as_mean = Mistake("empty-row-as-mean", lambda x: mean + softmax(x["masked"])[1:])
    return Task(inputs, (scores(), masked("scores"), weights("masked", as_mean, unmasked="scores"), output()))


def self_attention(random: Random) -> Task:
    """Return a drill on self-attention, from X and three weight matrices to the output."""
    inputs = {
        "X": matrix([[random.randint(0, 2) for _ in range(2)] for _ in range(2)]),
        "W_q": matrix([[times(random.randint(0, 2), ln(random.choice((2, 3))))] for _ in range(2)]),
        "W_k": matrix([[random.randint(-1, 2)] for _ in range(2)]),
        "W_v": matrix([[random.randint(-2, 4) for _ in range(2)] for _ in range(2)]),
    }
    steps = (
        _projection("Q", "W_q"),
        _projection("K", "W_k"),
        _projection("V", "W_v", Mistake("w-transposed", lambda x: product(x["X"], transpose(x["W_v"])))),
        scores(values_given=False),
        weights("scores", softmax_scaled_by_d_model("scores", 2)),
        output(keys_given=False),
    )
    return Task(inputs, steps)


def two_heads(random: Random) -> Task:
    """Return a drill on two heads of width 1, merged and projected."""
    primes = random.sample((2, 3), 2)
    inputs = {
        "Q": matrix([[times(random.randint(0, 2), ln(p)) for p in primes] for _ in range(2)]),
        "K": matrix([[random.randint(-1, 2) for _ in range(2)] for _ in range(2)]),
        "V": matrix([[random.randint(0, 12) for _ in range(2)] for _ in range(2)]),
        "W_o": _output_projection(random),
    }
    return Task(inputs, _head_steps(shared=False))


def shared_keys(random: Random) -> Task:
    """Return a drill on two query heads that share one head of keys and values."""
    inputs = {
        "Q": matrix([[times(random.randint(0, 2), ln(2)) for _ in range(2)] for _ in range(2)]),
        "K": matrix([[random.randint(-1, 2)] for _ in range(2)]),
        "V": matrix([[random.randint(0, 12)] for _ in range(2)]),
        "W_o": _output_projection(random),
    }
    return Task(inputs, _head_steps(shared=True))


def _head_steps(shared: bool) -> tuple[Step, ...]:
    def key_column(a: Matrix, head: int) -> Matrix:
        return a if shared else columns(a, head, head + 1)

    def head_weights(x: Values, head: int) -> Matrix:
        return softmax(product(columns(x["Q"], head, head + 1), transpose(key_column(x["K"], head))))

    def merged(x: Values, order: tuple[int, int] = (0, 1)) -> Matrix:
        first, second = (product(x[f"weights {head}"], key_column(x["V"], head)) for head in order)
        return concatenate(first, second)

    def weights_step(head: int) -> Step:
        mistakes = [Mistake("other-head", lambda x: head_weights(x, 1 - head))]
        if not shared:
            mistakes.insert(0, Mistake("one-head", lambda x: softmax(product(x["Q"], transpose(x["K"])))))
        return make_step(
            f"weights {head}", lambda x: head_weights(x, head), *mistakes, text_key="head-weights", head=head
        )

    return (
        weights_step(0),
        weights_step(1),
        make_step("merged", merged, Mistake("heads-swapped", lambda x: merged(x, (1, 0)))),
        make_step(
            "output",
            lambda x: product(x["merged"], x["W_o"]),
            Mistake("w_o-transposed", lambda x: product(x["merged"], transpose(x["W_o"]))),
            Mistake("w_o-forgotten", lambda x: x["merged"]),
            text_key="projected-output",
        ),
    )


def _projection(name: str, w: str, *mistakes: Mistake) -> Step:
    return make_step(name, lambda x: product(x["X"], x[w]), *mistakes, text_key="projection", result=name, matrix=w)


def _narrow_qkv(random: Random, tokens: int) -> dict[str, Matrix]:
    return {
        "Q": matrix([[times(random.choice((0, 1, 1, 2)), ln(2))] for _ in range(tokens)]),
        "K": matrix([[random.randint(-1, 2)] for _ in range(tokens)]),
        "V": matrix([[random.randint(0, 12)] for _ in range(tokens)]),
    }


def _output_projection(random: Random) -> Matrix:
    rows = [(1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (1, -1)]
    return matrix(random.sample(rows, 2))  # no two of the vectors are parallel
