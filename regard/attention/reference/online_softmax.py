"""Online softmax: attention in tiles, without holding a whole row of scores.

Softmax does not need all scores of a row at once. After some of the keys, keep for each query

    m = max of the scores so far        s = Σ exp(x_j − m)        a = Σ exp(x_j − m) v_j

If a tile with scores y and values u has a larger maximum m', the sums so far are too large by the factor
exp(m' − m). One multiplication corrects them:

    m' = max(m, max y)
    s' = s · exp(m − m') + Σ exp(y_j − m')
    a' = a · exp(m − m') + Σ exp(y_j − m') u_j

After the last tile the output is a / s and the log-sum-exp m + log s. FlashAttention works this way: a tile of scores
fits into fast memory next to the processor and is not stored, so memory grows with L, not with L·S. This version is
written for readability; in float64 it equals `reference.attention` to 1e-12.
"""

from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
from jaxtyping import Float

from regard.attention.reference import numpy_attention as reference
from regard.attention.reference.mask_array import MaskLike, visible
from regard.attention.reference.shape_checks import check_broadcast, check_shapes

Array = np.ndarray


@dataclass
class RunningSoftmax:
    """State of online softmax after some of the keys: m, s and a of the module docstring.

    >>> state = RunningSoftmax.empty((1,), d_v=1)
    >>> state.add(np.array([[0.0]]), np.array([[10.0]]))
    >>> state.add(np.array([[0.0]]), np.array([[20.0]]))
    >>> state.output(), state.log_sum_exp()
    (array([[15.]]), array([0.69314718]))
    """

    maximum: Float[Array, "*rows"]
    total: Float[Array, "*rows"]
    mixed: Float[Array, "*rows d_v"]

    @classmethod
    def empty(cls, rows: tuple[int, ...], d_v: int) -> "RunningSoftmax":
        """Return the state before the first key."""
        return cls(np.full(rows, -np.inf), np.zeros(rows), np.zeros((*rows, d_v)))

    def add(self, scores: Float[Array, "*rows tile"], values: Float[Array, "*heads tile d_v"]) -> None:
        """Add one tile of keys: their scores and their values."""
        maximum = np.maximum(self.maximum, scores.max(-1, initial=-np.inf))
        # If nothing is visible so far, subtract 0, since −∞ − −∞ is NaN.
        shift = np.where(np.isneginf(maximum), 0.0, maximum)
        correction = np.exp(self.maximum - shift)  # 0 if no earlier key is visible
        exponentials = np.exp(scores - shift[..., None])
        self.total = self.total * correction + exponentials.sum(-1)
        self.mixed = self.mixed * correction[..., None] + exponentials @ values
        self.maximum = maximum

    def output(self) -> Float[Array, "*rows d_v"]:
        """Return a / s; 0 for an empty row."""
        return self.mixed / np.where(self.total == 0, 1.0, self.total)[..., None]

    def log_sum_exp(self) -> Float[Array, "*rows"]:
        """Return m + log s; −∞ for an empty row."""
        logarithm = np.log(self.total, out=np.full_like(self.total, -np.inf), where=self.total != 0)
        return self.maximum + logarithm


@overload
def attention(
    query: Array, keys: Array, values: Array, mask: MaskLike | None = ..., *, bias: Array | None = ...,
    scale: float | None = ..., tile: tuple[int, int] = ..., lse: Literal[False] = ...,
) -> Array: ...  # fmt: skip
@overload
def attention(
    query: Array, keys: Array, values: Array, mask: MaskLike | None = ..., *, bias: Array | None = ...,
    scale: float | None = ..., tile: tuple[int, int] = ..., lse: Literal[True],
) -> tuple[Array, Array]: ...  # fmt: skip
def attention(
    query: Float[Array, "*queries d_k"],
    keys: Float[Array, "*heads S d_k"],
    values: Float[Array, "*heads S d_v"],
    mask: MaskLike | None = None,
    *,
    bias: Float[Array, "..."] | None = None,
    scale: float | None = None,
    tile: tuple[int, int] = (64, 64),
    lse: bool = False,
) -> Float[Array, "*queries d_v"] | tuple[Float[Array, "*queries d_v"], Float[Array, "*queries"]]:
    """Return attention, computed in tiles of (queries, keys); with `lse=True` return (output, log-sum-exp).

    >>> rng = np.random.default_rng(0)
    >>> q, k, v = rng.normal(size=(3, 2, 100, 8))
    >>> causal = np.tri(100, dtype=bool)
    >>> np.abs(attention(q, k, v, causal, tile=(16, 32)) - reference.attention(q, k, v, causal)).max() < 1e-12
    np.True_
    """
    shape = check_shapes(query.shape, keys.shape, values.shape)
    if min(tile) < 1:
        raise ValueError(f"tile must be two positive numbers, (queries, keys), got {tile}")
    if len(shape) == 1:
        query = query[None]
    rows, S = (*query.shape[:-1],), keys.shape[-2]
    visible_pairs = None if mask is None else _pairs(visible(mask, shape), (*rows, S))
    added = None if bias is None else _pairs(bias.reshape(check_broadcast("bias", bias.shape, shape)), (*rows, S))
    grouped = reference.for_each_head(reference.as_float("values", values), query)

    output, row_lse = np.zeros((*rows, values.shape[-1])), np.zeros(rows)
    for i in tiles(rows[-1], tile[0]):
        running = RunningSoftmax.empty((*rows[:-1], i.stop - i.start), values.shape[-1])
        for j in tiles(S, tile[1]):
            pairs = None if visible_pairs is None else visible_pairs[..., i, j]
            tile_bias = None if added is None else added[..., i, j]
            scores = reference.scores(query[..., i, :], keys[..., j, :], pairs, bias=tile_bias, scale=scale)
            running.add(scores, grouped[..., j, :])
        output[..., i, :] = running.output()
        row_lse[..., i] = running.log_sum_exp()

    output, row_lse = output.reshape(*shape[:-1], values.shape[-1]), row_lse.reshape(shape[:-1])
    return (output, row_lse) if lse else output


def tiles(length: int, size: int) -> list[slice]:
    """Return the slices that cut `length` positions into tiles of `size`; the last one may be shorter.

    >>> tiles(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def _pairs(x: Array, scores: tuple[int, ...]) -> Array:
    """Return a view of x with its last two axes expanded to L and S, so that tiles can be sliced."""
    x = np.atleast_2d(x)
    return np.broadcast_to(x, (*x.shape[:-2], *scores[-2:]))
