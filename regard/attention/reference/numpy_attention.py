"""Attention in NumPy: the specification that every other implementation is tested against.

For queries Q, keys K and values V,

    attention(Q, K, V) = softmax(scale · Q Kᵀ + bias) V            scale = 1/√d_k by default

With a softcap c, a scaled score s becomes c · tanh(s / c) before the bias is added.

    softmax(x)_j = exp(x_j − m) / Σ_k exp(x_k − m)                 m = max_k x_k

where a hidden key has the score −∞, so that its weight is exactly 0. The maximum is subtracted because exp() overflows
above 709 while scores of wide, unscaled vectors reach thousands; it does not change softmax. A row without visible keys
has no maximum: its weights and its output are 0, never NaN.

Rules for all implementations: in a boolean mask True means visible; weights are those of each head, never averaged.
Inputs of any floating type are computed in float64 (`dtype=` selects another, at least float32). NaN in an input is
propagated: in a query to its row, in a visible key to every row that sees it, and in a value to its column of every
row, since 0 · NaN is NaN.

Shapes are described in `regard.attention.reference.shape_checks`: one query (d_k,), many (L, d_k), or
(..., H, L, d_k) with H or fewer key/value heads.
"""

from typing import Literal, overload

import numpy as np
from einops import rearrange, repeat
from jaxtyping import Float
from numpy.typing import DTypeLike

from regard.attention.layers.head_count import check_groups, check_heads
from regard.attention.reference.mask_array import MaskLike, visible
from regard.attention.reference.shape_checks import check_broadcast, check_shapes

Array = np.ndarray


def softmax(scores: Float[Array, "*rows S"]) -> Float[Array, "*rows S"]:
    """Return softmax over the last axis; −∞ gives exactly 0, also in a row of −∞ only.

    >>> softmax(np.array([[0.0, 0.0], [1000.0, -np.inf], [-np.inf, -np.inf]]))
    array([[0.5, 0.5],
           [1. , 0. ],
           [0. , 0. ]])
    """
    exponentials = np.exp(scores - _finite_maximum(scores))
    total = exponentials.sum(-1, keepdims=True)
    return exponentials / np.where(total == 0, 1, total)


def log_sum_exp(scores: Float[Array, "*rows S"]) -> Float[Array, "*rows"]:
    """Return log Σ_j exp(x_j) over the last axis; −∞ for an empty row.

    The weight of a single pair is exp(x_ij − lse_i), and attention over two sets of keys can be merged with it.

    >>> log_sum_exp(np.array([[1000.0, 1000.0], [-np.inf, -np.inf]]))
    array([1000.69314718,         -inf])
    """
    maximum = _finite_maximum(scores)
    total = np.exp(scores - maximum).sum(-1, keepdims=True)
    logarithm = np.log(total, out=np.full_like(total, -np.inf), where=total != 0)
    return (maximum + logarithm)[..., 0]


def scores(
    query: Float[Array, "*queries d_k"],
    keys: Float[Array, "*heads S d_k"],
    mask: MaskLike | None = None,
    *,
    bias: Float[Array, "..."] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    dtype: DTypeLike = np.float64,
) -> Float[Array, "*queries S"]:
    """Return scale · Q Kᵀ + bias, the product capped by `softcap`, with −∞ where a key is hidden: what softmax gets.

    >>> scores(np.array([2.0, 0.0, 0.0, 0.0]), np.eye(4)[:3], np.array([True, True, False]))
    array([  1.,   0., -inf])
    """
    shape = check_shapes(query.shape, keys.shape, keys.shape)
    q, k = (as_float(*named, dtype) for named in (("query", query), ("keys", keys)))
    x = np.matmul(np.atleast_2d(q), for_each_head(k, q).swapaxes(-1, -2)) * scale_of(q.shape[-1], scale)
    if softcap is not None:
        x = softcap * np.tanh(x / softcap)
    if bias is not None:
        b = as_float("bias", bias, dtype)
        x = x + b.reshape(check_broadcast("bias", b.shape, shape))
    if mask is not None:
        x = np.where(visible(mask, shape), x, -np.inf)
    return x.reshape(shape)


@overload
def attention(
    query: Array, keys: Array, values: Array, mask: MaskLike | None = ..., *, bias: Array | None = ...,
    scale: float | None = ..., softcap: float | None = ..., weights: Literal[False] = ..., dtype: DTypeLike = ...,
) -> Array: ...  # fmt: skip
@overload
def attention(
    query: Array, keys: Array, values: Array, mask: MaskLike | None = ..., *, bias: Array | None = ...,
    scale: float | None = ..., softcap: float | None = ..., weights: Literal[True], dtype: DTypeLike = ...,
) -> tuple[Array, Array]: ...  # fmt: skip
def attention(
    query: Float[Array, "*queries d_k"],
    keys: Float[Array, "*heads S d_k"],
    values: Float[Array, "*heads S d_v"],
    mask: MaskLike | None = None,
    *,
    bias: Float[Array, "..."] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    weights: bool = False,
    dtype: DTypeLike = np.float64,
) -> Float[Array, "*queries d_v"] | tuple[Float[Array, "*queries d_v"], Float[Array, "*queries S"]]:
    """Return the average of the values for each query, with the weights softmax(scale · Q Kᵀ + bias).

    With `weights=True` return (output, weights).

    >>> keys = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> values = np.array([[10.0], [20.0]])
    >>> attention(np.array([0.0, 0.0]), keys, values)                   # equal weights: the mean
    array([15.])
    >>> attention(np.array([0.0, 0.0]), keys, values, np.array([True, False]), weights=True)
    (array([10.]), array([1., 0.]))
    """
    check_shapes(query.shape, keys.shape, values.shape)
    v = as_float("values", values, dtype)
    w = softmax(scores(query, keys, mask, bias=bias, scale=scale, softcap=softcap, dtype=dtype))
    mixed = np.matmul(np.atleast_2d(w), for_each_head(v, w))
    output = mixed.reshape(*w.shape[:-1], v.shape[-1])
    return (output, w) if weights else output


def split_heads(x: Float[Array, "*batch L D"], heads: int) -> Float[Array, "*batch {heads} L d_k"]:
    """Reshape (..., L, D) to (..., H, L, d_k): head h gets columns h·d_k to (h+1)·d_k.

    >>> split_heads(np.arange(8.0).reshape(2, 4), heads=2)
    array([[[0., 1.],
            [4., 5.]],
    <BLANKLINE>
           [[2., 3.],
            [6., 7.]]])
    """
    check_heads(x.shape[-1], heads)
    return rearrange(x, "... L (H d_k) -> ... H L d_k", H=heads)


def merge_heads(x: Float[Array, "*batch H L d_k"]) -> Float[Array, "*batch L D"]:
    """Reshape (..., H, L, d_k) to (..., L, H·d_k), the inverse of `split_heads`.

    >>> x = np.arange(8.0).reshape(2, 4)
    >>> (merge_heads(split_heads(x, heads=2)) == x).all()
    np.True_
    """
    return rearrange(x, "... H L d_k -> ... L (H d_k)")


def multi_head_attention(
    x: Float[Array, "*batch L D"],
    w_q: Float[Array, "D D_q"],
    w_k: Float[Array, "D_c D_k"],
    w_v: Float[Array, "D_c D_v"],
    w_o: Float[Array, "D_m D_o"],
    heads: int,
    context: Float[Array, "*batch S D_c"] | None = None,
    mask: MaskLike | None = None,
    *,
    kv_heads: int | None = None,
    b_q: Float[Array, " D_q"] | None = None,
    b_k: Float[Array, " D_k"] | None = None,
    b_v: Float[Array, " D_v"] | None = None,
    b_o: Float[Array, " D_o"] | None = None,
    scale: float | None = None,
    weights: bool = False,
    dtype: DTypeLike = np.float64,
) -> Float[Array, "*batch L D_o"] | tuple[Float[Array, "*batch L D_o"], Float[Array, "*batch {heads} L _"]]:
    """Return multi-head attention: project, split into heads, attend, merge, project; Concat(head_1 … head_H) W_o.

        head_h = attention(x W_q[:, h], c W_k[:, h], c W_v[:, h])        c = context, or x

    A weight multiplies from the right, x @ W: it is the transpose of `torch.nn.Linear.weight`. With fewer `kv_heads`
    than heads, W_k and W_v are narrower in proportion.

    >>> x = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> one = np.eye(2)
    >>> multi_head_attention(x, one, one, one, one, heads=2).round(3)   # heads of width 1
    array([[0.731, 0.5  ],
           [0.5  , 0.731]])
    """
    projected = project(x, w_q, w_k, w_v, context, b_q=b_q, b_k=b_k, b_v=b_v, dtype=dtype)
    q, k, v = split_projected(*projected, heads, kv_heads)
    mixed, w = attention(q, k, v, mask, scale=scale, weights=True, dtype=dtype)
    output = linear("w_o", merge_heads(mixed), w_o, b_o, dtype)
    return (output, w) if weights else output


def project(
    x: Float[Array, "*batch L D"],
    w_q: Float[Array, "D D_q"],
    w_k: Float[Array, "D_c D_k"],
    w_v: Float[Array, "D_c D_v"],
    context: Float[Array, "*batch S D_c"] | None = None,
    *,
    b_q: Float[Array, " D_q"] | None = None,
    b_k: Float[Array, " D_k"] | None = None,
    b_v: Float[Array, " D_v"] | None = None,
    dtype: DTypeLike = np.float64,
) -> tuple[Float[Array, "*batch L D_q"], Float[Array, "*batch _ D_k"], Float[Array, "*batch _ D_v"]]:
    """Return queries of x, and keys and values of the context (x if there is none).

    >>> q, k, v = project(np.ones((3, 4)), np.eye(4), np.eye(4), np.ones((4, 2)))
    >>> q.shape, k.shape, v.shape
    ((3, 4), (3, 4), (3, 2))
    """
    source = x if context is None else context
    if x.ndim < 2 or source.ndim != x.ndim or source.shape[:-2] != x.shape[:-2]:
        raise ValueError(
            f"x and context must have shapes (..., L, D) and (..., S, D) with the same leading dimensions, "
            f"got {x.shape} and {source.shape}; a single token still needs its L axis: x[None]"
        )
    k, v = linear("w_k", source, w_k, b_k, dtype), linear("w_v", source, w_v, b_v, dtype)
    return linear("w_q", x, w_q, b_q, dtype), k, v


def split_projected(
    q: Float[Array, "*batch L D_q"],
    k: Float[Array, "*batch S D_k"],
    v: Float[Array, "*batch S D_v"],
    heads: int,
    kv_heads: int | None = None,
) -> tuple[Float[Array, "*batch {heads} L d_k"], Float[Array, "*batch H_kv S d_k"], Float[Array, "*batch H_kv S d_v"]]:
    """Split queries into `heads` heads, and keys and values into `kv_heads` (default: `heads`).

    >>> q, k, v = split_projected(np.ones((3, 8)), np.ones((5, 4)), np.ones((5, 4)), heads=4, kv_heads=2)
    >>> q.shape, k.shape, v.shape
    ((4, 3, 2), (2, 5, 2), (2, 5, 2))
    """
    kv_heads = heads if kv_heads is None else kv_heads
    check_groups(heads, kv_heads)
    return split_heads(q, heads), split_heads(k, kv_heads), split_heads(v, kv_heads)


def linear(
    name: str,
    x: Float[Array, "*batch D_in"],
    weight: Float[Array, "D_in D_out"],
    bias: Float[Array, " D_out"] | None,
    dtype: DTypeLike = np.float64,
) -> Float[Array, "*batch D_out"]:
    """Return x @ weight + bias; `name` is the name of the weight in errors.

    >>> linear("w_q", np.array([1.0, 2.0]), np.eye(2), np.array([10.0, 20.0]))
    array([11., 22.])
    """
    if weight.ndim != 2 or weight.shape[0] != x.shape[-1]:
        raise ValueError(
            f"{name} must have shape ({x.shape[-1]}, D_out) to multiply x of shape {x.shape} from the right, "
            f"got {weight.shape}; the weight of a torch.nn.Linear is its transpose: {name}.T"
        )
    if bias is not None and bias.shape != weight.shape[1:]:
        raise ValueError(f"the bias of {name} must have shape {weight.shape[1:]}, got {bias.shape}")
    y: Array = as_float("x", x, dtype) @ as_float(name, weight, dtype)
    return y if bias is None else y + as_float(f"bias of {name}", bias, dtype)


def scale_of(d_k: int, scale: float | None) -> float:
    """Return `scale`, or 1/√d_k if it is None (1 for heads of width 0, whose scores are 0 anyway).

    >>> scale_of(16, None), scale_of(16, 1.0)
    (0.25, 1.0)
    """
    return float(scale) if scale is not None else max(d_k, 1) ** -0.5


def as_float(name: str, array: Array, dtype: DTypeLike = np.float64) -> Float[Array, "..."]:
    """Return the array in the precision of the computation; raise TypeError unless it is floating point.

    >>> as_float("query", np.ones(2, dtype=np.float16)).dtype
    dtype('float64')
    """
    array = np.asarray(array)
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"{name} must be floating point, got {array.dtype}; convert it: {name}.astype(float)")
    return array.astype(np.promote_types(dtype, np.float32), copy=False)


def for_each_head(x: Float[Array, "*heads S d"], like: Float[Array, "..."]) -> Float[Array, "*more S d"]:
    """Return keys or values with each head repeated for the query heads of its group: as many heads as `like` has.

    >>> for_each_head(np.zeros((2, 5, 4)), np.zeros((6, 7, 4))).shape
    (6, 5, 4)
    """
    if x.ndim < 3 or x.shape[-3] == like.shape[-3]:
        return x
    return repeat(x, "... H S d -> ... (H group) S d", group=like.shape[-3] // x.shape[-3])


def _finite_maximum(scores: Array) -> Array:
    # For a row of −∞ the maximum is replaced by 0, since −∞ − −∞ is NaN. +∞ and NaN are kept.
    maximum = scores.max(-1, keepdims=True, initial=-np.inf)
    return np.where(np.isneginf(maximum), 0.0, maximum).astype(scores.dtype, copy=False)
