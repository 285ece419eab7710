"""Drills on counting: shapes, parameters, operations, and the bytes of the KV cache."""

from collections.abc import Mapping, Sequence
from random import Random

from regard.learn.drills.drill import Compute, Mistake, Step, Task, Values, make_step
from regard.learn.drills.exact_numbers import Exact, exact
from regard.learn.drills.matrices import Matrix, matrix


def shapes(random: Random) -> Task:
    """Return a drill on the shape after every step of a cross-attention layer."""
    d_k, heads = random.choice((8, 16, 32, 64)), random.choice((2, 4, 8, 12))
    batch, queries, keys = random.sample(range(2, 16), 3)
    width = d_k * heads
    split, heads_behind = [batch, heads, queries, d_k], [batch, queries, heads, d_k]
    wrong_q = {"heads-behind": heads_behind, "not-split": [batch, heads, queries, width]}
    wrong_k = {"heads-behind": [batch, keys, heads, d_k], "swapped": split}
    wrong_context = {"swapped": [batch, heads, keys, d_k], "heads-behind": heads_behind}
    steps = (
        _constant("Q", "q-shape", [batch, queries, width]),
        _constant("Q split", "q-split-shape", split, wrong_q),
        _constant("K split", "k-split-shape", [batch, heads, keys, d_k], wrong_k),
        _constant("scores", "scores-shape", [batch, heads, queries, keys], {"swapped": [batch, heads, keys, queries]}),
        _constant("context", "context-shape", split, wrong_context),
        _constant("merged", "merged-shape", [batch, queries, width], {"not-merged": [batch, queries, d_k]}),
    )
    return Task({}, steps, {"batch": batch, "queries": queries, "keys": keys, "width": width, "heads": heads})


def parameters(random: Random) -> Task:
    """Return a drill on the parameters of an encoder layer."""
    heads, d_k = random.choice((2, 4, 6, 8, 12)), random.choice((8, 10, 16, 20, 32, 50, 64))
    width = heads * d_k
    hidden = random.choice((2, 3, 4)) * width
    projection = width * width + width
    wrong_projection = {"no-bias": [width * width], "times-heads": [projection * heads]}
    feed_forward, no_bias = [2 * width * hidden + hidden + width], {"no-bias": [2 * width * hidden]}
    both = {"attention": 1, "feed-forward": 1}
    steps = (
        _constant("projection", "projection-parameters", [projection], wrong_projection),
        make_step(
            "attention",
            _sum({"projection": 4}),
            Mistake("three", _sum({"projection": 3})),
            Mistake("times-heads", _sum({"projection": 4 * heads})),
            text_key="attention-parameters",
        ),
        _constant("feed-forward", "feed-forward-parameters", feed_forward, no_bias, hidden=hidden),
        make_step(
            "layer",
            _sum(both, 4 * width),
            Mistake("one-norm", _sum(both, 2 * width)),
            Mistake("no-norm", _sum(both), "one-norm"),
            text_key="layer-parameters",
        ),
    )
    return Task({}, steps, {"width": width, "heads": heads, "hidden": hidden})


def operations(random: Random) -> Task:
    """Return a drill on the operations and bytes of a layer over a sequence."""
    heads, d_k = random.choice((2, 4, 5, 8)), random.choice((10, 16, 20, 32, 64))
    tokens, batch = random.choice((10, 20, 32, 50, 64, 100, 128)), random.choice((2, 3, 6, 10))
    width = heads * d_k
    projections, products = 8 * tokens * width * width, 2 * tokens * tokens * width
    cells = batch * heads * tokens * tokens
    wrong_scores, wrong_projections = (
        {"multiply-adds": [count // 2], "times-heads": [count * heads]} for count in (products, projections)
    )
    wrong_bytes = {"no-heads": [4 * cells // heads], "no-batch": [4 * cells // batch], "elements": [cells]}
    three = {"three": [projections * 3 // 4]}
    steps = (
        _constant("projections", "projection-operations", [projections], wrong_projections | three),
        _constant("scores", "score-operations", [products], wrong_scores),
        make_step("both", _sum({"scores": 2}), text_key="both-operations"),
        _constant("matrix", "matrix-bytes", [4 * cells], wrong_bytes, batch=batch),
    )
    return Task({}, steps, {"tokens": tokens, "width": width, "heads": heads})


def cache(random: Random) -> Task:
    """Return a drill on the bytes of a KV cache."""
    layers, d_k = random.choice((2, 4, 6, 10, 12, 20, 24, 32)), random.choice((32, 50, 64, 100, 128))
    heads, kv_heads = random.choice(((8, 2), (12, 4), (16, 4), (32, 8)))
    tokens = random.choice((100, 500, 1000, 2000, 4000))
    token_bytes = 2 * kv_heads * d_k * 2
    wrong_bytes = {"keys-only": [token_bytes // 2], "all-heads": [token_bytes // kv_heads * heads]}
    steps = (
        _constant("token", "token-bytes", [token_bytes], wrong_bytes),
        make_step(
            "cache",
            _sum({"token": tokens * layers}),
            Mistake("one-layer", _sum({"token": tokens})),
            text_key="cache-bytes",
            tokens=tokens,
            layers=layers,
        ),
        _constant("ratio", "cache-ratio", [heads // kv_heads]),
    )
    return Task({}, steps, {"layers": layers, "heads": heads, "kv_heads": kv_heads, "d_k": d_k})


def _constant(
    name: str,
    text_key: str,
    numbers: Sequence[int],
    mistakes: Mapping[str, Sequence[int]] | None = None,
    **values: object,
) -> Step:
    """Return a step whose result, and the result of each of its mistakes, is a constant row."""

    def row(numbers: Sequence[int]) -> Compute:
        return lambda _: matrix([numbers])

    wrong = [Mistake(mistake, row(wrong_numbers)) for mistake, wrong_numbers in (mistakes or {}).items()]
    return make_step(name, row(numbers), *wrong, text_key=text_key, **values)


def _sum(factors: Mapping[str, int], constant: int = 0) -> Compute:
    """Return a function that computes Σ factor · (result of an earlier step) + constant."""

    def compute(values: Values) -> Matrix:
        result: Exact | float = exact(constant)
        for step, factor in factors.items():
            result = result + values[step][0][0] * exact(factor)
        return [[result]]

    return compute
