"""What decoding keeps from one step to the next.

A batch of prompts of different lengths stands aligned at its end, so that all rows write their next token at the
same place of the caches:

    · · a b c │ d          `before` says how many places at the beginning of each row are empty: nothing is
    e f g h i │ j          attended to there, and the places of a row count from its first token on
"""

from typing import Any

import torch
from torch import Tensor

from regard.attention.masks import Mask, padding
from regard.models.transformer.config import Common


class LayerCache:
    """Keys and values of one layer: its part of the storage, as a cache of `regard.nn`."""

    rule: Mask | None = None

    def __init__(self, storage: Tensor) -> None:
        self.storage, self.length = storage, 0  # (2, B, H_kv, room, d_k), keys and values

    @property
    def kept(self) -> int:
        return self.length

    @property
    def nbytes(self) -> int:
        return self.storage.nbytes

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Take k and v (B, H_kv, n, d_k) of n new tokens; return those of all tokens."""
        start, room = self.length, self.storage.shape[3]
        self.length += k.shape[2]
        if self.length > room:
            raise ValueError(f"the cache has room for {room} tokens, and {self.length} were asked for")
        self.storage[0, :, :, start : self.length] = k
        self.storage[1, :, :, start : self.length] = v
        keys, values = self.storage[:, :, :, : self.length].unbind(0)
        return keys, values

    def reset(self) -> None:
        """Forget all tokens; the memory is kept for the next ones."""
        self.length = 0

    def reorder(self, index: Tensor) -> None:
        raise TypeError("the rows of all layers change together: DecodingCache.reorder(index)")


class DecodingCache:
    """Keys and values of all layers in one storage, allocated once, and where each row begins.

    storage     (layers, 2, B, H_kv, room, d_k)
    caches      its parts, one a layer
    before      (B,) how many places at the beginning of each row are empty; None when no row has any
    sources     for a decoder with a source: its keys and values, a pair a layer, filled at the first step
    """

    def __init__(
        self, config: Common, layers: int, batch: int, room: int, like: Tensor, before: Tensor | None = None
    ) -> None:
        kv_heads = config.heads if config.kv_heads is None else config.kv_heads
        self.before, self.sources = before, list[Any]()
        with torch.inference_mode(False):  # what is made in inference mode could not be written to outside it
            self.storage = like.detach().new_empty(layers, 2, batch, kv_heads, room, config.d_k)
        self.caches = [LayerCache(part) for part in self.storage]

    @property
    def length(self) -> int:
        """How many places are taken."""
        return self.caches[0].length

    @property
    def nbytes(self) -> int:
        """The memory of all caches."""
        return self.storage.nbytes

    def places(self, new: int) -> int | Tensor:
        """The places of the next `new` tokens: that of the first, or (B, new) when rows begin at different ones."""
        if self.before is None:
            return self.length
        places = torch.arange(self.length, self.length + new, device=self.before.device) - self.before[:, None]
        return places.clamp_(min=0)

    def mask(self, new: int) -> Mask | None:
        """What hides the empty places from the next `new` tokens."""
        if self.before is None:
            return None
        return padding(torch.arange(self.length + new, device=self.before.device) >= self.before[:, None])

    def advance(self) -> None:
        """Count one more token in every layer, written into the storage by hand."""
        for cache in self.caches:
            cache.length += 1

    def reorder(self, index: Tensor) -> None:
        """Make row i what row index[i] was; an index longer than the batch makes it larger."""
        length, rows = self.length, self.storage.shape[2]
        held = self.storage[..., :length, :].index_select(2, index)
        if len(index) != rows:
            with torch.inference_mode(False):
                shape = (*self.storage.shape[:2], len(index), *self.storage.shape[3:])
                self.storage = self.storage.new_empty(shape)
            for cache, part in zip(self.caches, self.storage, strict=True):
                cache.storage = part
        self.storage[..., :length, :] = held
        self.before = None if self.before is None else self.before[index]
        self.sources = [known._replace(keys=known.keys[index], values=known.values[index]) for known in self.sources]
