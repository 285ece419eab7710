"""Attention over keys that come in pieces, for sequences that do not fit in memory.

Attention over two sets of keys, each with its output o and log-sum-exp λ, is attention over both:

    λ = log(exp λ₁ + exp λ₂)        o = exp(λ₁ − λ) o₁ + exp(λ₂ − λ) o₂

so only one output and one number a query are kept, however many keys have gone by.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from regard.attention.attend_dispatch import BiasLike, WithLse, attend_with_lse
from regard.attention.kernels.tiles import BiasRule
from regard.attention.masks import Mask
from regard.attention.masks.shifted import shift_mask


def merge(first: WithLse, second: WithLse) -> WithLse:
    """Attention over the keys of both; differentiable; an empty row of one is the other's.

    >>> q, k, v = torch.randn(3, 1, 2, 4), torch.randn(3, 1, 9, 4), torch.randn(3, 1, 9, 4)
    >>> left, right = attend_with_lse(q, k[..., :5, :], v[..., :5, :]), attend_with_lse(q, k[..., 5:, :], v[..., 5:, :])
    >>> torch.allclose(merge(left, right).output, attend_with_lse(q, k, v).output, atol=1e-6)
    True
    """
    largest = torch.maximum(first.lse, second.lse).detach()
    # Where both are empty every number is −inf, and −inf − −inf would be NaN, here and in the gradient.
    shift = largest.masked_fill(largest.isneginf(), 0.0)
    mine, theirs = (first.lse - shift).exp(), (second.lse - shift).exp()
    total, empty = mine + theirs, largest.isneginf()
    whole = total.masked_fill(empty, 1.0)
    output = (mine / whole)[..., None] * first.output + (theirs / whole)[..., None] * second.output
    return WithLse(output.to(first.output.dtype), (shift + whole.log()).masked_fill(empty, float("-inf")))


class Stream:
    """Feed keys and values piece by piece; ask for the result when done.

    queries     q (..., H, L, d_k)
    mask        a rule on the places of the whole sequence; then `keys`, its length S, must be said, since
                the queries stand at its end

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
        if mask is not None and keys is None:
            raise ValueError("with a mask, say how many keys there will be: Stream(q, mask=…, keys=S)")
        if mask is not None and not isinstance(mask, Mask):
            raise TypeError(
                f"a stream takes a rule of regard.masks, got {type(mask).__name__}; wrap it: masks.given(…)"
            )
        if bias is not None and keys is None:
            raise ValueError("with a bias, say how many keys there will be: Stream(q, bias=…, keys=S)")
        self.q, self.mask, self.bias, self.scale, self.keys = q, mask, bias, scale, keys
        self.fed = 0
        """How many keys have been fed."""
        self._so_far: WithLse | None = None
        if mask is not None and keys is not None:
            heads = q.shape[-3] if q.dim() > 2 else 1
            mask.check(q.shape[:-3].numel(), heads, q.shape[-2], keys)

    def feed(self, k: Tensor, v: Tensor) -> None:
        """The next keys and values, (..., H_kv, n, d_k) and (..., H_kv, n, d_v)."""
        n = k.shape[-2]
        start, stop = self.fed, self.fed + n
        if self.keys is not None and stop > self.keys:
            raise ValueError(f"{stop} keys have been fed, but the stream was made for {self.keys}")
        piece = attend_with_lse(self.q, k, v, self._mask(start, n), bias=self._bias(start, n), scale=self.scale)
        self._so_far = piece if self._so_far is None else merge(self._so_far, piece)
        self.fed = stop

    def feed_all(self, pieces: Iterable[tuple[Tensor, Tensor]]) -> "Stream":
        """Every pair of keys and values in turn."""
        for k, v in pieces:
            self.feed(k, v)
        return self

    @property
    def result(self) -> WithLse:
        """Output and log-sum-exp over what has been fed so far."""
        if self._so_far is None:
            raise ValueError("nothing has been fed yet: call feed(k, v) first")
        return self._so_far

    @property
    def output(self) -> Tensor:
        return self.result.output

    def _mask(self, start: int, n: int) -> Mask | None:
        if self.mask is None or self.keys is None:
            return None
        # attend() puts the queries at the end of the piece; they stand at the end of the whole.
        return shift_mask(self.mask, queries=self.keys - n, keys=start)

    def _bias(self, start: int, n: int) -> BiasLike | None:
        if self.bias is None or self.keys is None:
            return None
        if isinstance(self.bias, Tensor):
            return self.bias if self.bias.shape[-1] == 1 else self.bias[..., start : start + n]
        return _Farther(self.bias, self.keys - n - start)


class _Farther:
    """A bias rule for a piece whose keys all lie farther from the queries than attend() thinks."""

    def __init__(self, rule: BiasRule, by: int) -> None:
        self.rule, self.by, self.heads = rule, by, rule.heads

    def values(self, h: Tensor, distance: Tensor) -> Tensor:
        return self.rule.values(h, distance + self.by)
