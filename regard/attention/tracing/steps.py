"""Attention as a sequence of named steps, as a learner computes it by hand.

    project       Q = X W_q, K = X W_k, V = X W_v      query, key and value of every token
    split         (L, D) → (H, L, d_k)                 each head gets its columns
    scores        Q Kᵀ                                 dot product of every query with every key
    scale         · 1/√d_k                             keeps softmax from saturating in wide heads
    mask          hidden → −∞                          pairs that are not visible
    maximum       m_i = max_j                          subtracted so that exp() cannot overflow
    exponentials  exp(x_ij − m_i)                      between 0 and 1
    sum           Σ_j                                  sum of each row
    weights       exponentials / sum                   each row sums to 1
    context       weights · V                          weighted average of the values
    merge         (H, L, d_k) → (L, D)                 the heads side by side
    output        merged W_o                           combines the heads

`trace` starts from q, k and v and has the steps from scores to context; `trace_layer` has all of them. The numbers are
those of `reference`, in float64.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.attention.reference import numpy_attention as reference
from regard.attention.reference.mask_array import MaskLike, visible
from regard.attention.reference.shape_checks import check_shapes, letters
from regard.attention.tracing.step_texts import step_text
from regard.attention.tracing.trace_record import Part, Step, Trace

Array = np.ndarray


def trace(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    scale: float | None = None,
    tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
) -> Trace:
    """Return a trace of attention: scores, scale, mask, …, weights, context.

    q, k and v are arrays, nested lists or torch tensors with the shapes of `regard.attend`, or a single query (d_k,).
    `tokens` are the names of the queries, and of the keys if `key_tokens` is not given.

    >>> t = trace([[2.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [3.0]], scale=1.0)
    >>> for step in t.steps:
    ...     print(f"{step.name:12} {step.values.round(3).tolist()}")
    scores       [[2.0, 0.0]]
    scale        [[2.0, 0.0]]
    mask         [[2.0, 0.0]]
    maximum      [2.0]
    exponentials [[1.0, 0.135]]
    sum          [1.135]
    weights      [[0.881, 0.119]]
    context      [[1.238]]
    """
    q, k, v = to_float64("q", q), to_float64("k", k), to_float64("v", v)
    check_shapes(q.shape, k.shape, v.shape)
    fields = _fields(q, k, mask, scale, tokens, key_tokens)
    return Trace("attention", _qkv_parts(q, k, v), _attend(q, k, v, fields["visible"], scale), **fields)


def trace_layer(
    x: Any,
    w_q: Any,
    w_k: Any,
    w_v: Any,
    w_o: Any,
    heads: int,
    context: Any = None,
    mask: Any = None,
    *,
    kv_heads: int | None = None,
    b_q: Any = None,
    b_k: Any = None,
    b_v: Any = None,
    b_o: Any = None,
    scale: float | None = None,
    tokens: Sequence[str] | None = None,
    context_tokens: Sequence[str] | None = None,
    note: str = "",
) -> Trace:
    """Return a trace of multi-head attention, from the vectors x (L, D) of the tokens to the output (L, D_o).

    x                       vectors of the tokens (L, D)
    w_q, w_k, w_v, w_o      projections of queries, keys, values and output; they multiply from the right: x @ w_q
    heads, kv_heads         H and H_kv; by default H_kv = H
    context                 vectors (S, D_c) from which keys and values are computed; x by default
    mask                    as for `regard.trace`
    b_q, b_k, b_v, b_o      biases of the projections; none by default
    scale                   factor of the scores; 1/√d_k by default
    tokens, context_tokens  names of the rows of x and of `context`
    note                    one sentence about the origin of the numbers

    >>> from regard.attention import embed, projections
    >>> words = ["The", "cat", "sat"]
    >>> t = trace_layer(embed(words, 8), *projections(8), heads=2, tokens=words)
    >>> [(step.name, step.shape) for step in t.steps[-3:]]
    [('context', (2, 3, 4)), ('merge', (3, 8)), ('output', (3, 8))]
    """
    arguments = {"X": x, "C": context, "W_q": w_q, "W_k": w_k, "W_v": w_v, "W_o": w_o}
    arguments |= {"b_q": b_q, "b_k": b_k, "b_v": b_v, "b_o": b_o}
    arrays = {name: to_float64(name, value) for name, value in arguments.items() if value is not None}

    biases: dict[str, Any] = {name: arrays.get(name) for name in ("b_q", "b_k", "b_v")}
    projected = reference.project(arrays["X"], arrays["W_q"], arrays["W_k"], arrays["W_v"], arrays.get("C"), **biases)
    q, k, v = reference.split_projected(*projected, heads, kv_heads)
    *batch, _, _ = _rows(q, k)[0]
    fields = _fields(q, k, mask, scale, tokens, context_tokens)
    attended = _attend(q, k, v, fields["visible"], scale)
    merged = reference.merge_heads(attended[-1].values)
    output = reference.linear("W_o", merged, arrays["W_o"], arrays.get("b_o"))

    source = "X" if context is None else "C"
    texts = {}
    for name, left in {"q": "X", "k": source, "v": source, "o": "merged"}.items():
        texts[name] = f"{left} · W_{name}" + (f" + b_{name}" if f"b_{name}" in arrays else "")
        texts[f"{name}_latex"] = texts[name].replace(" ·", "").replace("merged", r"\text{merged}")

    # A width equal to that of x is written D too: (L, D) is clearer than (L, D_q) if they are equal.
    D = {name: _width(arrays[f"W_{name}"], arrays["X"], f"D_{name}") for name in "qkvo"}
    D |= {"m": _width(merged, arrays["X"], "D_m"), "c": _width(arrays[source], arrays["X"], "D_c")}
    shapes = {"X": (*batch, "L", "D"), "C": (*batch, "S", D["c"])}
    shapes |= {"W_q": ("D", D["q"]), "W_k": (D["c"], D["k"]), "W_v": (D["c"], D["v"]), "W_o": (D["m"], D["o"])}
    shapes |= {f"b_{name}": (D[name],) for name in "qkvo"}

    q_k_v = zip("qkv", projected, "LSS", strict=True)
    parts = [Part(name.upper(), values, (*batch, place, D[name])) for name, values, place in q_k_v]
    before = (
        _step("project", *parts, **texts),
        _step("split", *_qkv_parts(q, k, v), width=projected[0].shape[-1], heads=heads, d_k=q.shape[-1]),
    )
    after = (
        _step("merge", Part("merged", merged, (*batch, "L", D["m"]))),
        _step("output", Part("output", output, (*batch, "L", D["o"])), **texts),
    )
    inputs = tuple(Part(name, values, shapes[name]) for name, values in arrays.items())
    return Trace("layer", inputs, (*before, *attended, *after), note=note, **fields)


def to_float64(name: str, x: Any) -> Array:
    """Return an array, nested list or torch tensor as float64; raise TypeError if it is not floating point.

    >>> to_float64("q", [[1, 2]])      # lists have no dtype and are read as floats
    array([[1., 2.]])
    """
    if isinstance(x, list | tuple | float):
        try:
            x = np.array(x, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must contain numbers in rows of equal length; NumPy reports: {error}") from error
    return reference.as_float(name, _to_numpy(x))


def _to_numpy(x: Any) -> Any:
    """Return a torch tensor as an array, without importing torch; anything else unchanged."""
    if not hasattr(x, "detach"):
        return x
    x = x.detach().cpu()
    return (x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy()  # NumPy has no bfloat16


def _attend(q: Array, k: Array, v: Array, visible_pairs: Array | None, scale: float | None) -> tuple[Step, ...]:
    """Return the steps from scores to context."""
    rows, _ = _rows(q, k)
    factor = reference.scale_of(q.shape[-1], scale)

    def part(symbol: str, values: Array, *columns: str) -> Part:
        # A single query was given an L axis for the computation; remove it.
        return Part(symbol, np.asarray(values if q.ndim > 1 else values[0]), (*rows, *columns))

    queries = np.atleast_2d(q)
    scores = queries @ reference.for_each_head(k, queries).swapaxes(-1, -2)
    scaled = scores * factor
    masked = scaled if visible_pairs is None else np.where(visible_pairs, scaled, -np.inf)
    maximum = masked.max(-1, initial=-np.inf)
    shift = np.where(np.isneginf(maximum), 0.0, maximum)  # 0 for an empty row, since −∞ − −∞ is NaN
    exponentials = np.exp(masked - shift[..., None])
    total = exponentials.sum(-1)
    weights = exponentials / np.where(total == 0, 1.0, total)[..., None]
    context = weights @ reference.for_each_head(v, queries)

    empty, scale_text = (total == 0).any(), "scale" if scale is None else "scale, given"
    return (
        _step("scores", part("scores", scores, "S")),
        _step("scale", part("scaled", scaled, "S"), text=scale_text, d_k=q.shape[-1], scale=f"{factor:.4g}"),
        _step("mask", part("masked", masked, "S"), text="mask" if visible_pairs is not None else "mask, none"),
        _step("maximum", part("maximum", maximum)),
        _step("exponentials", part("exponentials", exponentials, "S")),
        _step("sum", part("sum", total)),
        _step("weights", part("weights", weights, "S"), text="weights, empty row" if empty else "weights"),
        _step("context", part("context", context, _width(v, k, "d_v"))),
    )


def _step(name: str, *parts: Part, text: str | None = None, **values: object) -> Step:
    return Step(name, **step_text(text or name, **values), parts=parts)


def _qkv_parts(q: Array, k: Array, v: Array) -> tuple[Part, Part, Part]:
    rows, kv_rows = _rows(q, k)
    v_part = Part("V", v, (*kv_rows, _width(v, k, "d_v")))
    return Part("Q", q, (*rows, "d_k")), Part("K", k, (*kv_rows, "d_k")), v_part


def _rows(q: Array, k: Array) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the letters (B, H, L, S …) of all dimensions of q and of k except the last."""
    if q.ndim == 1:
        return (), ("S",)
    *lead, _, _ = letters(q.ndim)
    grouped = q.ndim > 2 and q.shape[-3] != k.shape[-3]
    return (*lead, "L"), (*lead[:-1], "H_kv", "S") if grouped else (*lead, "S")


def _width(x: Array, like: Array, otherwise: str) -> str:
    """Return the letter of the last dimension of x: that of `like` if they are equally wide."""
    usual = {"d": "d_k", "D": "D"}[otherwise[0]]
    return usual if x.shape[-1] == like.shape[-1] else otherwise


def _fields(
    q: Array, k: Array, mask: Any, scale: float | None, tokens: Sequence[str] | None, key_tokens: Sequence[str] | None
) -> dict[str, Any]:
    """Return the fields of a trace other than its inputs and steps."""
    L, S = (1 if q.ndim == 1 else q.shape[-2]), k.shape[-2]
    if key_tokens is None and tokens is not None and len(tokens) == S:
        key_tokens = tokens
    text = None
    if mask is not None:
        mask = np.asarray(mask) if isinstance(mask, list | tuple) else _to_numpy(mask)
        text = f"an array of shape {mask.shape}" if isinstance(mask, Array) else repr(mask)
    return {
        "tokens": _names("tokens", tokens, "q", L),
        "key_tokens": _names("key_tokens", key_tokens, "k", S),
        "heads": q.shape[-3] if q.ndim > 2 else 1,
        "kv_heads": k.shape[-3] if k.ndim > 2 else 1,
        "scale": reference.scale_of(q.shape[-1], scale),
        "visible": None if mask is None else _pairs(mask, (*q.shape[:-1], S), L),
        "mask": text,
    }


def _pairs(mask: MaskLike, scores: tuple[int, ...], L: int) -> Array:
    pairs = np.atleast_2d(visible(mask, scores))
    return np.broadcast_to(pairs, (*pairs.shape[:-2], L, scores[-1]))


def _names(argument: str, names: Sequence[str] | None, letter: str, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{letter}{i}" for i in range(count))
    if len(names) != count:
        raise ValueError(f"{argument} must have a name for each of the {count} positions, got {len(names)} names")
    return tuple(names)
