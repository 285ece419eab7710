"""What decoding keeps from one step to the next.

A batch of prompts of different lengths stands aligned at its end, so that all rows write their next token at the
same place of the caches:

    · · a b c │ d          `before` says how many places at the beginning of each row are empty: nothing is
    e f g h i │ j          attended to there, and the places of a row count from its first token on
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.attention.masks import Mask, padding
from regard.models.config import Common
from regard.nn import KVCache


@dataclass
class Past:
    """A cache a layer, and where each row begins.

    caches      keys and values of the tokens so far
    before      (B,) how many places at the beginning of each row are empty; None when no row has any
    sources     for a decoder with a source: its keys and values, a pair a layer, filled at the first step
    """

    caches: list[KVCache]
    before: Tensor | None = None
    sources: list[Any] = field(default_factory=list)

    @classmethod
    def room(
        cls, config: Common, layers: int, batch: int, length: int, like: Tensor, before: Tensor | None = None
    ) -> "Past":
        """Room for `length` tokens in each of `batch` rows, in the type and on the device of `like`."""
        kv_heads = config.heads if config.kv_heads is None else config.kv_heads
        made = [
            KVCache(batch, kv_heads, length, config.d_k, dtype=like.dtype, device=like.device) for _ in range(layers)
        ]
        return cls(made, before)

    @property
    def length(self) -> int:
        """How many places are taken."""
        return self.caches[0].length

    @property
    def nbytes(self) -> int:
        """The memory of all caches."""
        return sum(cache.nbytes for cache in self.caches)

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

    def reorder(self, index: Tensor) -> None:
        """Make row i what row index[i] was."""
        for cache in self.caches:
            cache.reorder(index)
        self.before = None if self.before is None else self.before[index]
        self.sources = [known._replace(keys=known.keys[index], values=known.values[index]) for known in self.sources]
