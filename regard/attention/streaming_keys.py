"""Attention over keys that arrive in pieces, for sequences that do not fit in memory.

Attention over two sets of keys, each with its output o and log-sum-exp λ, gives attention over both:

    λ = log(exp λ₁ + exp λ₂)        o = exp(λ₁ − λ) o₁ + exp(λ₂ − λ) o₂

so only one output and one number per query are kept, for any number of keys.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from regard.attention.attend_function import BiasLike, WithLse, attend_with_lse
from regard.attention.kernels.additive_mask import BiasRule
from regard.attention.masks import Mask
from regard.attention.masks.shifted_positions import shift_mask


def merge(first: WithLse, second: WithLse) -> WithLse:
    """Return attention over the keys of both results.

    first, second   results for the same queries over different keys

    A row that is empty in one result is taken from the other. The result is differentiable.

    >>> q, k, v = torch.randn(3, 1, 2, 4), torch.randn(3, 1, 9, 4), torch.randn(3, 1, 9, 4)
    >>> left, right = attend_with_lse(q, k[..., :5, :], v[..., :5, :]), attend_with_lse(q, k[..., 5:, :], v[..., 5:, :])
    >>> torch.allclose(merge(left, right).output, attend_with_lse(q, k, v).output, atol=1e-6)
    True
    """
    largest = torch.maximum(first.lse, second.lse).detach()
    # Where a row is empty in both results, −inf − −inf would be NaN, in the output and in the gradient.
    empty = largest.isneginf()
    shift = largest.masked_fill(empty, 0.0)
    weight_1, weight_2 = (first.lse - shift).exp(), (second.lse - shift).exp()
    total = (weight_1 + weight_2).masked_fill(empty, 1.0)
    output = (weight_1 / total)[..., None] * first.output + (weight_2 / total)[..., None] * second.output
    return WithLse(output.to(first.output.dtype), (shift + total.log()).masked_fill(empty, float("-inf")))


class Stream:
    """Attention over keys and values that are fed piece by piece.

    q           queries (..., H, L, d_k)
    mask        a mask over the whole sequence; requires `keys`
    keys        S, the length of the whole sequence, with whose last keys the queries are aligned
    bias        as for `attend`, over the whole sequence; requires `keys`
    scale       factor of the scores; 1/√d_k by default

    >>> q, k, v = torch.randn(1, 6, 4), torch.randn(1, 100, 4), torch.randn(1, 100, 4)
    >>> from regard import masks
    >>> stream = Stream(q, mask=masks.causal(), keys=100)
    >>> for start in range(0, 100, 30):
    ...     stream.feed(k[:, start : start + 30], v[:, start : start + 30])
    >>> torch.allclose(stream.output, attend_with_lse(q, k, v, masks.causal()).output, atol=1e-6)
    True
    """

    def __init__(
        self,
        q: Tensor,
        *,
        mask: Mask | None = None,
        keys: int | None = None,
        bias: BiasLike | None = None,
        scale: float | None = None,
    ) -> None:
        for name, value in (("mask", mask), ("bias", bias)):
            if value is not None and keys is None:
                raise ValueError(f"with a {name}, pass the total number of keys: Stream(q, {name}=…, keys=S)")
        if mask is not None and not isinstance(mask, Mask):
            raise TypeError(f"a stream takes a mask of regard.masks, got {type(mask).__name__}; use masks.given(…)")
        self.q, self.mask, self.bias, self.scale, self.keys = q, mask, bias, scale, keys
        self.fed = 0
        """Number of keys fed so far."""
        self._result: WithLse | None = None
        if mask is not None and keys is not None:
            heads = q.shape[-3] if q.dim() > 2 else 1
            mask.check(q.shape[:-3].numel(), heads, q.shape[-2], keys)

    def feed(self, k: Tensor, v: Tensor) -> None:
        """Add the next keys (..., H_kv, n, d_k) and values (..., H_kv, n, d_v)."""
        n = k.shape[-2]
        start, stop = self.fed, self.fed + n
        if self.keys is not None and stop > self.keys:
            raise ValueError(f"{stop} keys have been fed, but the stream was made for {self.keys}; pass a larger keys=")
        piece = attend_with_lse(self.q, k, v, self._mask(start, n), bias=self._bias(start, n), scale=self.scale)
        self._result = piece if self._result is None else merge(self._result, piece)
        self.fed = stop

    def feed_all(self, pieces: Iterable[tuple[Tensor, Tensor]]) -> "Stream":
        """Feed every pair of keys and values in turn, and return the stream."""
        for k, v in pieces:
            self.feed(k, v)
        return self

    @property
    def result(self) -> WithLse:
        """Output and log-sum-exp over the keys fed so far."""
        if self._result is None:
            raise ValueError("nothing has been fed yet: call feed(k, v) first")
        return self._result

    @property
    def output(self) -> Tensor:
        """Output over the keys fed so far, (..., H, L, d_v)."""
        return self.result.output

    def _mask(self, start: int, n: int) -> Mask | None:
        if self.mask is None or self.keys is None:
            return None
        # attend() aligns the queries with the end of the piece; they belong to the end of the whole sequence.
        return shift_mask(self.mask, queries=self.keys - n, keys=start)

    def _bias(self, start: int, n: int) -> BiasLike | None:
        if self.bias is None or self.keys is None:
            return None
        if isinstance(self.bias, Tensor):
            return self.bias if self.bias.shape[-1] == 1 else self.bias[..., start : start + n]
        return _ShiftedBias(self.bias, self.keys - n - start)


class _ShiftedBias:
    """A bias rule with a constant added to every distance."""

    def __init__(self, rule: BiasRule, distance: int) -> None:
        self.rule, self.distance, self.heads = rule, distance, rule.heads

    def values(self, h: Tensor, distance: Tensor) -> Tensor:
        return self.rule.values(h, distance + self.distance)
