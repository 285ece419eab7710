"""Keys and values kept from one step of decoding to the next.

Under a causal mask the keys and values of earlier tokens never change, so a new token needs only its own:

    k, v of the new tokens  →  append  →  k, v of everything the new tokens may attend to

| cache | keeps | memory |
|---|---|---|
| `KVCache` | up to `max_length` tokens | allocated once |
| `GrowingCache` | everything | doubled when full, so n tokens cost O(n) copying in all |
| `SlidingCache` | the last `window` tokens, and the first few if asked | 2·window, whatever the length |

A cache is for decoding, not for training: under autograd it refuses keys that want a gradient.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.integer_arguments import check_integer
from regard.attention.masks import Mask, prefix, window

Keys = Float[Tensor, "b kv_heads n d_k"]
Values = Float[Tensor, "b kv_heads n d_v"]
Buffer = Float[Tensor, "b kv_heads capacity d"]


@runtime_checkable
class Cache(Protocol):
    """What a layer needs of a cache; anything with these can be given as `cache=`."""

    @property
    def length(self) -> int:
        """How many tokens were appended in all: the place of the next one."""

    @property
    def kept(self) -> int:
        """How many of them are still held."""

    @property
    def rule(self) -> Mask | None:
        """What hides from later ones of several new tokens the keys that only earlier ones see, if any."""

    @property
    def nbytes(self) -> int:
        """The memory it holds."""

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Take the keys and values of new tokens; return all that they may attend to, the new ones last."""

    def reset(self) -> None:
        """Forget all tokens."""

    def reorder(self, index: Tensor) -> None:
        """Make batch item i what item index[i] was: for beam search."""


class _Buffers:
    """Two buffers (B, H_kv, capacity, d), keys and values; the tokens held lie in one run of places."""

    def __init__(self) -> None:
        self._keys: Tensor | None = None
        self._values: Tensor | None = None
        self._start = 0
        self._held = 0
        self._length = 0

    @property
    def length(self) -> int:
        """How many tokens were appended in all: the place of the next one."""
        return self._length

    @property
    def kept(self) -> int:
        """How many of them are still held."""
        return self._held

    @property
    def rule(self) -> Mask | None:
        return None

    @property
    def nbytes(self) -> int:
        """The memory of both buffers in bytes."""
        return sum(0 if x is None else x.nbytes for x in (self._keys, self._values))

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Take k (B, H_kv, n, d_k) and v (B, H_kv, n, d_v) of n new tokens; return those of all tokens held.

        What is returned are views into the cache, good until the next append.
        """
        self._check(k, v)
        self._make_room(k, v)
        assert self._keys is not None
        assert self._values is not None
        new = slice(self._start + self._held, self._start + self._held + k.shape[2])
        self._keys[:, :, new], self._values[:, :, new] = k, v
        self._held += k.shape[2]
        self._length += k.shape[2]
        return self._view(self._keys), self._view(self._values)

    def reset(self) -> None:
        """Forget all tokens; the memory is kept for the next ones."""
        self._start = self._held = self._length = 0

    def reorder(self, index: Tensor) -> None:
        """Make batch item i what item index[i] was; an index longer than the batch makes it larger.

        >>> cache = GrowingCache()
        >>> k = torch.tensor([1.0, 2.0]).reshape(2, 1, 1, 1)       # two batch items
        >>> _ = cache.append(k, k)
        >>> cache.reorder(torch.tensor([1, 1]))                    # both go on from the second
        >>> cache.append(k, k)[0].flatten(1)
        tensor([[2., 1.],
                [2., 2.]])
        """
        if index.dim() != 1 or index.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                f"reorder takes whole numbers (B,), the batch item that each goes on from; "
                f"got {index.dtype} of shape {tuple(index.shape)}"
            )
        if self._keys is None or self._values is None:
            return
        batch = self._keys.shape[0]
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < batch:
            raise ValueError(f"reorder: the batch has items 0 … {batch - 1}, got {index.tolist()}")
        self._keys, self._values = self._reordered(self._keys, index), self._reordered(self._values, index)

    def _reordered(self, buffer: Buffer, index: Int[Tensor, " beams"]) -> Float[Tensor, "beams kv_heads capacity d"]:
        taken = self._view(buffer).index_select(0, index.to(buffer.device))
        if len(index) != buffer.shape[0]:
            buffer = _buffer(buffer, len(index), buffer.shape[2])
        self._view(buffer).copy_(taken)
        return buffer

    def _view(self, buffer: Buffer) -> Float[Tensor, "b kv_heads n d"]:
        return buffer[:, :, self._start : self._start + self._held]

    def _make_room(self, k: Keys, v: Values) -> None:
        """Have buffers with room for these after the last token held."""
        raise NotImplementedError

    def _enlarge(self, k: Keys, v: Values, capacity: int) -> None:
        """Buffers of this capacity, with the tokens held at their beginning."""
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
                f"{who} is for decoding and passes no gradient on; decode under torch.no_grad(), "
                "and train on whole sequences without a cache"
            )
        if self._keys is None or self._values is None:
            return
        for name, x, mine in (("k", k, self._keys), ("v", v, self._values)):
            if (x.shape[0], x.shape[1], x.shape[3]) != (mine.shape[0], mine.shape[1], mine.shape[3]):
                raise ValueError(
                    f"{who} holds (B={mine.shape[0]}, H_kv={mine.shape[1]}, n, d={mine.shape[3]}), "
                    f"got {name} of shape {tuple(x.shape)}; a cache serves one layer and one batch: "
                    "reorder(index) changes the batch, and another layer needs a cache of its own"
                )
            if x.dtype != mine.dtype or x.device != mine.device:
                raise TypeError(
                    f"{who} holds {mine.dtype} on {mine.device}, got {name} in {x.dtype} on {x.device}; "
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
    # A buffer made in inference mode could not be written to outside it.
    with torch.inference_mode(False):
        return like.new_empty(batch, like.shape[1], capacity, like.shape[3])


class KVCache(_Buffers):
    """Room for `max_length` tokens, allocated once: no copying, no surprise later.

    batch, kv_heads, max_length, d_k    the shape (B, H_kv, T, d_k)
    d_v                                 width of the values; d_k unless given

    >>> cache = KVCache(batch=1, kv_heads=1, max_length=3, d_k=2)
    >>> k = torch.ones(1, 1, 2, 2)
    >>> keys, values = cache.append(k, k)
    >>> keys.shape, cache.length
    (torch.Size([1, 1, 2, 2]), 2)
    >>> cache.append(k, k)
    Traceback (most recent call last):
    ValueError: the cache has room for 3 tokens and holds 2, so 2 more do not fit; build it with
    max_length=4 or more, reset() it, or use GrowingCache (no end) or SlidingCache (the last tokens)
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

    def _make_room(self, k: Keys, v: Values) -> None:
        if self._held + k.shape[2] > self.max_length:
            raise ValueError(
                f"the cache has room for {self.max_length} tokens and holds {self._held}, "
                f"so {k.shape[2]} more do not fit; build it with max_length={self._held + k.shape[2]} or "
                "more, reset() it, or use GrowingCache (no end) or SlidingCache (the last tokens)"
            )


class GrowingCache(_Buffers):
    """Everything, without an end. Shape, dtype and device are those of the first keys and values.

    capacity    how many tokens to have room for at first

    >>> cache = GrowingCache(capacity=2)
    >>> for n in range(5):
    ...     keys, values = cache.append(torch.full((1, 1, 1, 1), float(n)), torch.zeros(1, 1, 1, 1))
    >>> keys.flatten()
    tensor([0., 1., 2., 3., 4.])
    """

    def __init__(self, *, capacity: int = 64) -> None:
        super().__init__()
        self._least = check_integer("GrowingCache(capacity)", capacity, 1, "it counts tokens")

    def _make_room(self, k: Keys, v: Values) -> None:
        capacity = 0 if self._keys is None else self._keys.shape[2]
        needed = self._held + k.shape[2]
        if self._keys is None or needed > capacity:
            self._enlarge(k, v, max(self._least, 2 * capacity, needed))


class SlidingCache(_Buffers):
    """The last `window` tokens, and the first `first` ones if asked (as StreamingLLM keeps them).

    window      W, how many tokens a query sees, its own among them
    first       how many tokens from the first stay in sight for good

    Decoding with it equals attention under `causal() & (window(keys=W) | prefix(first))`. The keys lie in
    order in one run of a buffer of 2·W, moved to its beginning when they reach the end: one move of W keys
    for every W tokens.

    `append` returns the first ones, up to W − 1 old ones, and all the new ones, however many they are, so
    that the first of the new tokens sees its whole window. Only at the next append are they dropped. Between
    the first ones and the rest some are missing; ALiBi counts distances without the gap, as StreamingLLM.

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

    @property
    def kept(self) -> int:
        """How many tokens are still of use: the first ones, and at most `window` others."""
        return min(self._held, self.first + self.window)

    @property
    def rule(self) -> Mask | None:
        recent = window(keys=self.window)
        return recent | prefix(self.first) if self.first else recent

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Take n new tokens; return the first, up to window − 1 old ones, and the new ones."""
        self._check(k, v)
        self._drop()
        if self._held + k.shape[2] <= self.first + 2 * self.window:
            return super().append(k, v)
        return self._pass_through(k, v)

    def _drop(self) -> None:
        """Forget what no new token sees: all but the first and the last window − 1."""
        first = min(self.first, self._held)
        gone = self._held - first - (self.window - 1)
        if gone <= 0 or self._keys is None or self._values is None:
            return
        for buffer in (self._keys, self._values):
            here = slice(self._start, self._start + first)
            there = slice(self._start + gone, self._start + gone + first)
            if first:
                buffer[:, :, there] = buffer[:, :, here].clone()  # they may overlap
        self._start += gone
        self._held -= gone

    def _make_room(self, k: Keys, v: Values) -> None:
        if self._keys is None or self._values is None:
            self._enlarge(k, v, self.first + 2 * self.window)
        elif self._start + self._held + k.shape[2] > self._keys.shape[2]:
            for buffer in (self._keys, self._values):
                buffer[:, :, : self._held] = self._view(buffer).clone()  # they may overlap
            self._start = 0

    def _pass_through(
        self, k: Keys, v: Values
    ) -> tuple[Float[Tensor, "b kv_heads kept d_k"], Float[Tensor, "b kv_heads kept d_v"]]:
        """More new tokens than the buffer takes: they are returned whole, and the end of them is kept."""
        if self._keys is None or self._values is None:
            self._enlarge(k, v, self.first + 2 * self.window)
        assert self._keys is not None
        assert self._values is not None
        joined = torch.cat((self._view(self._keys), k), 2), torch.cat((self._view(self._values), v), 2)
        for buffer, whole_ in zip((self._keys, self._values), joined, strict=True):
            buffer[:, :, : self.first] = whole_[:, :, : self.first]
            buffer[:, :, self.first : self.first + self.window] = whole_[:, :, -self.window :]
        self._start, self._held = 0, self.first + self.window
        self._length += k.shape[2]
        return joined
