"""Hypothesis strategies for attention: shapes, masks and biases of every kind."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from regard import masks


@dataclass
class Problem:
    query: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    mask: np.ndarray | None
    bias: np.ndarray | None
    scale: float | None

    @property
    def scores_shape(self) -> tuple[int, ...]:
        return (*self.query.shape[:-1], self.keys.shape[-2])


@st.composite
def problems(draw: st.DrawFn, smallest: int = 0) -> Problem:
    """Draw one query, many, or many with heads and a batch; L and S of at least `smallest`; masks with empty rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    L, S = draw(st.integers(smallest, 7)), draw(st.integers(smallest, 7))
    d_k, d_v = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    form = draw(st.sampled_from(["one query", "many queries", "heads", "batch", "two batches", "empty batch"]))
    kv_heads, group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    batch = {"batch": (2,), "two batches": (2, 1), "empty batch": (2, 0)}.get(form, ())
    kv_batch = tuple(draw(st.sampled_from([1, size])) for size in batch)
    if form == "one query":
        query, lead = rng.normal(size=d_k), ()
    elif form == "many queries":
        query, lead = rng.normal(size=(L, d_k)), ()
    else:
        query, lead = rng.normal(size=(*batch, kv_heads * group, L, d_k)), (*kv_batch, kv_heads)
    keys, values = rng.normal(size=(*lead, S, d_k)), rng.normal(size=(*lead, S, d_v))
    size = 10.0 ** draw(st.integers(-2, 3))  # scores from tiny to hopelessly saturated
    scores = (*query.shape[:-1], S)
    return Problem(
        query * size,
        keys,
        values,
        mask=draw(st.none() | _broadcasting(scores).map(lambda s: rng.random(s) < 0.6)),
        bias=draw(st.none() | _broadcasting(scores).map(lambda s: rng.normal(size=s))),
        scale=draw(st.none() | st.floats(-2.0, 2.0) | st.sampled_from([0.0, -1e-320, 1e-45, -1e-38, 1e-30, 1e4, -1e4])),
    )


def _broadcasting(scores: tuple[int, ...]) -> st.SearchStrategy[tuple[int, ...]]:
    """Draw a shape that broadcasts to the scores: some dimensions are 1, some leading ones are missing."""
    each = st.tuples(*(st.sampled_from([1, size]) for size in scores))
    return st.tuples(each, st.integers(0, len(scores) - 1)).map(lambda pair: pair[0][pair[1] :])


@st.composite
def rules(draw: st.DrawFn, batch: int, heads: int, queries: int, keys: int, depth: int = 2) -> masks.Mask:
    """Draw a mask of any kind for these sizes, combined with & | ~ up to some depth."""
    if depth and draw(st.booleans()):
        left = draw(rules(batch, heads, queries, keys, depth - 1))
        kind = draw(st.sampled_from("&|~"))
        if kind == "~":
            return ~left
        right = draw(rules(batch, heads, queries, keys, depth - 1))
        return left & right if kind == "&" else left | right
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    width = draw(st.integers(1, 2 * keys + 2))
    blocks = -(-keys // width)
    match draw(
        st.sampled_from(
            [
                "causal",
                "window",
                "dilated",
                "blocks",
                "layout",
                "prefix",
                "lengths",
                "real",
                "documents",
                "given",
                "rule",
            ]
        )
    ):
        case "causal":
            return masks.causal()
        case "window":
            return masks.window(keys=width, ahead=draw(st.integers(0, width - 1)))
        case "dilated":
            return masks.dilated(keys=width, step=draw(st.integers(1, 5)))
        case "blocks":
            return masks.blocks(width)
        case "layout":
            return masks.blocks(width, layout=rng.random((draw(st.sampled_from([1, heads])), blocks, blocks)) < 0.5)
        case "prefix":
            return masks.prefix(draw(st.integers(0, keys + 2)))
        case "lengths":
            return masks.padding(rng.integers(0, keys + 1, size=batch))
        case "real":
            return masks.padding(rng.random((batch, keys)) < 0.7)
        case "documents":
            ids = rng.integers(0, 4, size=(draw(st.sampled_from([1, batch])), keys))
            return masks.documents(np.sort(ids, -1) if draw(st.booleans()) else ids)
        case "given":
            return masks.given(rng.random((draw(st.sampled_from([1, batch])), 1, queries, keys)) < 0.6)
    return masks.rule(lambda b, h, q, k: (q + k + h) % 3 != 0, "thirds", heads=heads)
