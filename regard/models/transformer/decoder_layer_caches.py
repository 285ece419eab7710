"""Cache of keys and values during generation.

Prompts of different lengths are aligned at their end, so that all rows write their next token to the same place:

    · · a b c │ d          `before` counts the empty places at the beginning of each row. No token attends to them,
    e f g h i │ j          and the positions of a row count from its first token
"""

from typing import Any

import torch
from torch import Tensor

from regard.attention.masks import Mask, padding
from regard.models.transformer.config import TransformerConfig


class LayerCache:
    """Keys and values of one layer: its part of the storage, with the interface of the caches of `regard.nn`."""

    rule: Mask | None = None

    def __init__(self, storage: Tensor) -> None:
        self.storage, self.length = storage, 0  # (2, B, H_kv, capacity, d_k), keys and values

    @property
    def kept(self) -> int:
        return self.length

    @property
    def nbytes(self) -> int:
        return self.storage.nbytes

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store k and v (B, H_kv, n, d_k) of n new tokens; return keys and values of all tokens."""
        start, capacity = self.length, self.storage.shape[3]
        self.length += k.shape[2]
        if self.length > capacity:
            raise ValueError(f"the cache has a capacity of {capacity} tokens, got {self.length}; make a longer one")
        self.storage[0, :, :, start : self.length] = k
        self.storage[1, :, :, start : self.length] = v
        keys, values = self.storage[:, :, :, : self.length].unbind(0)
        return keys, values

    def reset(self) -> None:
        """Remove all tokens; the memory is reused."""
        self.length = 0

    def reorder(self, index: Tensor) -> None:
        raise TypeError("the rows of all layers are reordered together: use DecodingCache.reorder(index)")


class DecodingCache:
    """Keys and values of all layers in one storage, allocated once.

    storage     (layers, 2, B, H_kv, capacity, d_k)
    layers      one `LayerCache` per layer, a view of the storage
    before      (B,) number of empty places at the beginning of each row; None when no row has any
    sources     for a decoder with a source: keys and values of the source, one pair per layer, set at the first step
    """

    def __init__(
        self, config: TransformerConfig, layers: int, batch: int, capacity: int, like: Tensor,
        before: Tensor | None = None,
    ) -> None:  # fmt: skip
        kv_heads = config.heads if config.kv_heads is None else config.kv_heads
        self.before, self.sources = before, list[Any]()
        with torch.inference_mode(False):  # an inference tensor could not be written to outside inference mode
            self.storage = like.detach().new_empty(layers, 2, batch, kv_heads, capacity, config.d_k)
        self.layers = [LayerCache(part) for part in self.storage]

    @property
    def length(self) -> int:
        """Number of places in use."""
        return self.layers[0].length

    @property
    def nbytes(self) -> int:
        """Memory of all layers in bytes."""
        return self.storage.nbytes

    def positions(self, new: int) -> int | Tensor:
        """Return the position of the next token; if rows are padded, those of the next `new` tokens, (B, new)."""
        if self.before is None:
            return self.length
        places = torch.arange(self.length, self.length + new, device=self.before.device) - self.before[:, None]
        return places.clamp_(min=0)

    def mask(self, new: int) -> Mask | None:
        """Return the mask that hides the empty places from the next `new` tokens."""
        if self.before is None:
            return None
        return padding(torch.arange(self.length + new, device=self.before.device) >= self.before[:, None])

    def advance(self) -> None:
        """Count one more token in every layer; its keys and values must have been written to `storage` before."""
        for layer in self.layers:
            layer.length += 1

    def reorder(self, index: Tensor) -> None:
        """Replace row i by row index[i]; an index longer than the batch makes it larger."""
        length, rows = self.length, self.storage.shape[2]
        content = self.storage[..., :length, :].index_select(2, index)
        if len(index) != rows:
            with torch.inference_mode(False):
                shape = (*self.storage.shape[:2], len(index), *self.storage.shape[3:])
                self.storage = self.storage.new_empty(shape)
            for layer, part in zip(self.layers, self.storage, strict=True):
                layer.storage = part
        self.storage[..., :length, :] = content
        self.before = None if self.before is None else self.before[index]
        self.sources = [
            source._replace(keys=source.keys[index], values=source.values[index]) for source in self.sources
        ]
