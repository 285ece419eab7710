"""KV caches for autoregressive decoding: keys and values of earlier tokens.

Under a causal mask the keys and values of earlier tokens never change, so a new token needs only its own:

    k, v of the new tokens  →  append  →  k, v of all tokens that the new ones may attend to

| cache | holds | memory |
|---|---|---|
| `KVCache` | up to `max_length` tokens | allocated once |
| `GrowingCache` | everything | doubled when full, so n tokens cost O(n) copying in all |
| `SlidingCache` | the last `window` tokens, and optionally the first few | 2·window, for any length |

A cache is for decoding, not for training: under autograd it rejects keys that require a gradient.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.integer_arguments import check_integer
from regard.attention.masks import Mask, prefix
from regard.attention.masks import window as recent_keys

Keys = Float[Tensor, "b kv_heads n d_k"]
Values = Float[Tensor, "b kv_heads n d_v"]
Buffer = Float[Tensor, "b kv_heads capacity d"]


@runtime_checkable
class Cache(Protocol):
    """Interface of a cache; any object with these methods can be passed as `cache=`."""

    @property
    def length(self) -> int:
        """Number of tokens appended so far, which is the position of the next one."""

    @property
    def kept(self) -> int:
        """Number of tokens that are still held."""

    @property
    def rule(self) -> Mask | None:
        """Mask over the keys that `append` returns, if a new token must not see all of them; otherwise None."""

    @property
    def nbytes(self) -> int:
        """Memory of the cache in bytes."""

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new tokens; return those of all tokens they may attend to, the new ones last."""

    def reset(self) -> None:
        """Remove all tokens."""

    def reorder(self, index: Tensor) -> None:
        """Replace batch item i by the former item index[i], as beam search does."""


class _Buffers:
    """Two buffers (B, H_kv, capacity, d), for keys and values; the tokens are at consecutive indices."""

    rule: Mask | None = None

    def __init__(self) -> None:
        self._keys: Tensor | None = None
        self._values: Tensor | None = None
        self._start = self._held = 0
        self.length = 0
        """Number of tokens appended so far, which is the position of the next one."""

    @property
    def kept(self) -> int:
        """Number of tokens that are still held."""
        return self._held

    @property
    def nbytes(self) -> int:
        """Memory of both buffers in bytes."""
        return sum(0 if x is None else x.nbytes for x in (self._keys, self._values))

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add k (B, H_kv, n, d_k) and v (B, H_kv, n, d_v) of n new tokens; return those of all tokens held.

        The returned tensors are views of the cache and valid until the next append.
        """
        self._check(k, v)
        self._ensure_capacity(k, v)
        assert self._keys is not None
        assert self._values is not None
        new = slice(self._start + self._held, self._start + self._held + k.shape[2])
        self._keys[:, :, new], self._values[:, :, new] = k, v
        self._held += k.shape[2]
        self.length += k.shape[2]
        return self._view(self._keys), self._view(self._values)

    def reset(self) -> None:
        """Remove all tokens; the memory is reused for the next ones."""
        self._start = self._held = self.length = 0

    def reorder(self, index: Tensor) -> None:
        """Replace batch item i by the former item index[i]; the length of `index` is the new batch size.

        >>> cache = GrowingCache()
        >>> k = torch.tensor([1.0, 2.0]).reshape(2, 1, 1, 1)       # two batch items
        >>> _ = cache.append(k, k)
        >>> cache.reorder(torch.tensor([1, 1]))                    # both continue the second
        >>> cache.append(k, k)[0].flatten(1)
        tensor([[2., 1.],
                [2., 2.]])
        """
        if index.dim() != 1 or index.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                f"reorder takes whole numbers (B,), for each new batch item the index of an old one; "
                f"got {index.dtype} of shape {tuple(index.shape)}"
            )
        if self._keys is None or self._values is None:
            return
        batch = self._keys.shape[0]
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < batch:
            raise ValueError(f"reorder: indices of batch items must be in 0 … {batch - 1}, got {index.tolist()}")
        self._keys, self._values = self._reordered(self._keys, index), self._reordered(self._values, index)

    def _reordered(self, buffer: Buffer, index: Int[Tensor, " beams"]) -> Float[Tensor, "beams kv_heads capacity d"]:
        selected = self._view(buffer).index_select(0, index.to(buffer.device))
        if len(index) != buffer.shape[0]:
            buffer = _buffer(buffer, len(index), buffer.shape[2])
        self._view(buffer).copy_(selected)
        return buffer

    def _view(self, buffer: Buffer) -> Float[Tensor, "b kv_heads n d"]:
        return buffer[:, :, self._start : self._start + self._held]

    def _ensure_capacity(self, k: Keys, v: Values) -> None:
        """Make the buffers large enough for the tokens held and those of k and v, or raise if they do not fit."""
        raise NotImplementedError

    def _enlarge(self, k: Keys, v: Values, capacity: int) -> None:
        """Allocate buffers of this capacity, with the held tokens at their beginning."""
        for name, old, like in (("_keys", self._keys, k), ("_values", self._values, v)):
            new = _buffer(like, like.shape[0], capacity)
            if old is not None:
                new[:, :, : self._held] = self._view(old)
            setattr(self, name, new)
        self._start = 0

    def _check(self, k: Tensor, v: Tensor) -> None:
        who = type(self).__name__
        if k.dim() != 4 or v.dim() != 4 or k.shape[:3] != v.shape[:3]:
            raise ValueError(
                f"{who} takes k (B, H_kv, n, d_k) and v (B, H_kv, n, d_v) of the same n tokens, "
                f"got {tuple(k.shape)} and {tuple(v.shape)}"
            )
        if torch.is_grad_enabled() and (k.requires_grad or v.requires_grad):
            raise ValueError(
                f"{who} is for decoding and does not propagate gradients; decode under torch.no_grad(), "
                "and train on whole sequences without a cache"
            )
        if self._keys is None or self._values is None:
            return
        for name, x, buffer in (("k", k, self._keys), ("v", v, self._values)):
            if (x.shape[0], x.shape[1], x.shape[3]) != (buffer.shape[0], buffer.shape[1], buffer.shape[3]):
                raise ValueError(
                    f"{who} holds (B={buffer.shape[0]}, H_kv={buffer.shape[1]}, n, d={buffer.shape[3]}), "
                    f"got {name} of shape {tuple(x.shape)}; a cache serves one layer and one batch: "
                    "reorder(index) changes the batch, and another layer needs a cache of its own"
                )
            if x.dtype != buffer.dtype or x.device != buffer.device:
                raise TypeError(
                    f"{who} holds {buffer.dtype} on {buffer.device}, got {name} in {x.dtype} on {x.device}; "
                    f"build it with dtype={x.dtype}, device='{x.device}' or convert with .to(…)"
                )

    def __repr__(self) -> str:
        if self._keys is None:
            return f"{type(self).__name__}(empty)"
        b, h, capacity, d = self._keys.shape
        return (
            f"{type(self).__name__}({self.kept} keys of {self.length}, room for {capacity}, "
            f"B={b}, H_kv={h}, d={d}, {str(self._keys.dtype).removeprefix('torch.')}, {self.nbytes:,} bytes)"
        )


def _buffer(
    like: Float[Tensor, "_ kv_heads _ d"], batch: int, capacity: int
) -> Float[Tensor, "{batch} kv_heads {capacity} d"]:
    # A buffer created in inference mode could not be written outside it.
    with torch.inference_mode(False):
        return like.new_empty(batch, like.shape[1], capacity, like.shape[3])


class KVCache(_Buffers):
    """Cache for at most `max_length` tokens, allocated once.

    batch, kv_heads, max_length, d_k    the shape (B, H_kv, T, d_k)
    d_v                                 width of the values; d_k by default
    dtype, device                       type and place of the buffers; those of torch by default

    >>> cache = KVCache(batch=1, kv_heads=1, max_length=3, d_k=2)
    >>> k = torch.ones(1, 1, 2, 2)
    >>> keys, values = cache.append(k, k)
    >>> keys.shape, cache.length
    (torch.Size([1, 1, 2, 2]), 2)
    >>> cache.append(k, k)
    Traceback (most recent call last):
    ValueError: the cache has room for 3 tokens and holds 2, so 2 more do not fit; build it with
    max_length=4 or more, reset() it, or use GrowingCache (no limit) or SlidingCache (the last tokens)
    """

    def __init__(
        self,
        batch: int,
        kv_heads: int,
        max_length: int,
        d_k: int,
        *,
        d_v: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.max_length = check_integer("KVCache(max_length)", max_length, 1, "it counts tokens")
        batch = check_integer("KVCache(batch)", batch, 0, "it counts batch items")
        kv_heads = check_integer("KVCache(kv_heads)", kv_heads, 1, "it counts key/value heads")
        d_k = check_integer("KVCache(d_k)", d_k, 1, "it is the width of a head")
        d_v = d_k if d_v is None else check_integer("KVCache(d_v)", d_v, 1, "it is the width of a value")
        like = torch.empty(0, 0, 0, dtype=dtype, device=device)
        self._keys = _buffer(like.new_empty(0, kv_heads, 0, d_k), batch, self.max_length)
        self._values = _buffer(like.new_empty(0, kv_heads, 0, d_v), batch, self.max_length)

    def _ensure_capacity(self, k: Keys, v: Values) -> None:
        if self._held + k.shape[2] > self.max_length:
            raise ValueError(
                f"the cache has room for {self.max_length} tokens and holds {self._held}, "
                f"so {k.shape[2]} more do not fit; build it with max_length={self._held + k.shape[2]} or "
                "more, reset() it, or use GrowingCache (no limit) or SlidingCache (the last tokens)"
            )


class GrowingCache(_Buffers):
    """Cache for any number of tokens. Shape, dtype and device are those of the first keys and values.

    capacity    number of tokens that fit before the first enlargement

    >>> cache = GrowingCache(capacity=2)
    >>> for n in range(5):
    ...     keys, values = cache.append(torch.full((1, 1, 1, 1), float(n)), torch.zeros(1, 1, 1, 1))
    >>> keys.flatten()
    tensor([0., 1., 2., 3., 4.])
    """

    def __init__(self, *, capacity: int = 64) -> None:
        super().__init__()
        self._initial_capacity = check_integer("GrowingCache(capacity)", capacity, 1, "it counts tokens")

    def _ensure_capacity(self, k: Keys, v: Values) -> None:
        capacity = 0 if self._keys is None else self._keys.shape[2]
        needed = self._held + k.shape[2]
        if self._keys is None or needed > capacity:
            self._enlarge(k, v, max(self._initial_capacity, 2 * capacity, needed))


class SlidingCache(_Buffers):
    """Cache for the last `window` tokens, and optionally the first `first` ones (as in StreamingLLM).

    window      W, the number of tokens that a query sees, its own among them
    first       number of tokens at the beginning that remain visible

    Decoding with it equals attention under `causal() & (window(keys=W) | prefix(first))`. The keys are in order in a
    buffer of 2·W. When they reach its end they are moved to its beginning: one move of W keys for every W tokens.

    `append` returns the first tokens, up to W − 1 old ones and all the new ones, so that the first of the new tokens
    sees its whole window. Older tokens are dropped at the next append. Between the first tokens and the rest there is a
    gap; ALiBi computes distances without it, as StreamingLLM does.

    >>> cache = SlidingCache(window=2, first=1)
    >>> for n in range(5):
    ...     keys, values = cache.append(torch.full((1, 1, 1, 1), float(n)), torch.zeros(1, 1, 1, 1))
    >>> keys.flatten(), cache.length, cache.kept
    (tensor([0., 3., 4.]), 5, 3)
    """

    def __init__(self, window: int, *, first: int = 0) -> None:
        super().__init__()
        self.window = check_integer("SlidingCache(window)", window, 1, "the query's own key is one of them")
        self.first = check_integer("SlidingCache(first)", first, 0, "it counts keys from the first")
        recent = recent_keys(keys=self.window)
        self.rule = recent | prefix(self.first) if self.first else recent

    @property
    def kept(self) -> int:
        """Number of tokens that later ones can see: the first ones, and at most `window` others."""
        return min(self._held, self.first + self.window)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add n new tokens; return keys and values of the first tokens, up to window − 1 old ones, and the new ones."""
        self._check(k, v)
        self._drop_old()
        if self._held + k.shape[2] <= self.first + 2 * self.window:
            return super().append(k, v)
        return self._append_beyond_capacity(k, v)

    def _drop_old(self) -> None:
        """Drop the tokens that no new one sees: all but the first and the last window − 1."""
        first = min(self.first, self._held)
        dropped = self._held - first - (self.window - 1)
        if dropped <= 0 or self._keys is None or self._values is None:
            return
        for buffer in (self._keys, self._values):
            old = slice(self._start, self._start + first)
            new = slice(self._start + dropped, self._start + dropped + first)
            if first:
                buffer[:, :, new] = buffer[:, :, old].clone()  # old and new may overlap
        self._start += dropped
        self._held -= dropped

    def _ensure_capacity(self, k: Keys, v: Values) -> None:
        if self._keys is None or self._values is None:
            self._enlarge(k, v, self.first + 2 * self.window)
        elif self._start + self._held + k.shape[2] > self._keys.shape[2]:
            for buffer in (self._keys, self._values):
                buffer[:, :, : self._held] = self._view(buffer).clone()  # source and target may overlap
            self._start = 0

    def _append_beyond_capacity(
        self, k: Keys, v: Values
    ) -> tuple[Float[Tensor, "b kv_heads kept d_k"], Float[Tensor, "b kv_heads kept d_v"]]:
        """Append more tokens than fit the buffer: return all of them, and hold the last ones."""
        if self._keys is None or self._values is None:
            self._enlarge(k, v, self.first + 2 * self.window)
        assert self._keys is not None
        assert self._values is not None
        all_tokens = torch.cat((self._view(self._keys), k), 2), torch.cat((self._view(self._values), v), 2)
        for buffer, tokens in zip((self._keys, self._values), all_tokens, strict=True):
            buffer[:, :, : self.first] = tokens[:, :, : self.first]
            buffer[:, :, self.first : self.first + self.window] = tokens[:, :, -self.window :]
        self._start, self._held = 0, self.first + self.window
        self.length += k.shape[2]
        return all_tokens
