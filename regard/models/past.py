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


class Kept:
    """Keys and values of one layer in one buffer, allocated once: (B, H_kv + H_kv, room, d_k), keys first.

    A cache as `regard.nn` has them, with one difference: `step.py` writes keys and values of a token in one go.
    """

    rule: Mask | None = None

    def __init__(self, batch: int, kv_heads: int, room: int, d_k: int, like: Tensor) -> None:
        self.kv_heads, self.length = kv_heads, 0
        with torch.inference_mode(False):  # a buffer made in inference mode could not be written to outside it
            self.buffer = like.new_empty(batch, 2 * kv_heads, room, d_k)

    @property
    def kept(self) -> int:
        return self.length

    @property
    def nbytes(self) -> int:
        return self.buffer.nbytes

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Take k and v (B, H_kv, n, d_k) of n new tokens; return those of all tokens."""
        start, room = self.length, self.buffer.shape[2]
        self.length += k.shape[2]
        if self.length > room:
            raise ValueError(f"the cache has room for {room} tokens, and {self.length} were asked for")
        new = self.buffer[:, :, start : self.length]
        new[:, : self.kv_heads], new[:, self.kv_heads :] = k, v
        held = self.buffer[:, :, : self.length]
        return held[:, : self.kv_heads], held[:, self.kv_heads :]

    def reset(self) -> None:
        """Forget all tokens; the memory is kept for the next ones."""
        self.length = 0

    def reorder(self, index: Tensor) -> None:
        """Make row i what row index[i] was; an index longer than the batch makes it larger."""
        held = self.buffer[:, :, : self.length].index_select(0, index)
        if len(index) != len(self.buffer):
            with torch.inference_mode(False):
                self.buffer = self.buffer.new_empty(len(index), *self.buffer.shape[1:])
        self.buffer[:, :, : self.length] = held


@dataclass
class Past:
    """A cache a layer, and where each row begins.

    caches      keys and values of the tokens so far
    before      (B,) how many places at the beginning of each row are empty; None when no row has any
    sources     for a decoder with a source: its keys and values, a pair a layer, filled at the first step
    """

    caches: list[Kept]
    before: Tensor | None = None
    sources: list[Any] = field(default_factory=list)

    @classmethod
    def room(
        cls, config: Common, layers: int, batch: int, length: int, like: Tensor, before: Tensor | None = None
    ) -> "Past":
        """Room for `length` tokens in each of `batch` rows, in the type and on the device of `like`."""
        kv_heads = config.heads if config.kv_heads is None else config.kv_heads
        return cls([Kept(batch, kv_heads, length, config.d_k, like.detach()) for _ in range(layers)], before)

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
