"""Decoding step of a whole model with the compiled layers of `one_token_layer_kernels.py`: float32 on the CPU."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.models.generation import one_token_layer_kernels as kernels
from regard.models.generation.one_token_layer_kernels import Array, Sublayer
from regard.models.transformer.decoder_layer_caches import DecodingCache
from regard.models.transformer.seq2seq import Seq2Seq

EMPTY: Array = np.empty(0, np.float32)


class CompiledDecoder:
    """Scores (B, V) of the token after tokens (B,), equal to those of the model's modules up to rounding.

    model           a Decoder or Seq2Seq
    cache           the model's cache, which already contains the prompt
    source_lengths  (B,) number of source tokens of each row; None if no row is padded
    """

    def __init__(self, model: Any, cache: DecodingCache, source_lengths: Tensor | None = None) -> None:
        decoder: Any = model.decoder if isinstance(model, Seq2Seq) else model
        config = model.config
        self.cache, self.source_lengths = cache, source_lengths
        self.embedding, self.head = decoder.embedding, _array(model.table)
        self.options = kernels.Options(
            config.heads, config.heads if config.kv_heads is None else config.kv_heads, config.norm == "pre",
            config.normalisation == "rms", config.epsilon, kernels.ACTIVATIONS.index(config.activation),
        )  # fmt: skip
        self.layers = [_sublayers(layer) for layer in decoder.layers]
        self.norm = None if decoder.norm is None else (_array(decoder.norm.weight), _bias(decoder.norm))
        first = decoder.layers[0].attention
        self.rotary = None if first.rotary is None else _rotary_factors(first.rotary, cache.storage.shape[4])
        self.slopes = EMPTY if first.alibi is None else np.array(first.alibi.slopes, np.float32)
        self._view_cache()

    def _view_cache(self) -> None:
        """Set the arrays that share the memory of the cache; call it again after `reorder` of the cache."""
        cache, rows = self.cache, self.cache.storage.shape[2]
        self.storage = cache.storage.detach().numpy()  # (layers, 2, B, H_kv, capacity, d_k)
        self.sources = [(_array(source.keys), _array(source.values)) for source in cache.sources]
        self.starts = np.zeros(rows, np.int64) if cache.before is None else cache.before.numpy()
        if self.source_lengths is not None:
            self.lengths = self.source_lengths.numpy()
        elif self.sources:
            self.lengths = np.full(rows, self.sources[0][0].shape[2])

    def __call__(self, tokens: Int[Tensor, " b"]) -> Float[Tensor, "b v"]:
        t, options = self.cache.length, self.options
        positions = t - self.starts  # (B,) position in each row, counted from its first token
        # Positions as a tensor, because an int would make a table that grows with the text.
        x = self.embedding(tokens[:, None], torch.from_numpy(positions)[:, None])[:, 0].contiguous().numpy()
        cos, sin = (EMPTY[None], EMPTY[None]) if self.rotary is None else (x[positions] for x in self.rotary)
        for n, (attention, cross, feed) in enumerate(self.layers):
            keys, values = self.storage[n]
            x = kernels.self_attention(x, attention, options, keys, values, t, self.starts, cos, sin, self.slopes)
            if cross is not None:
                x = kernels.source_attention(x, cross, options, *self.sources[n], self.lengths)
            x = kernels.feed_forward(x, feed, options)
        if self.norm is not None:
            x = kernels.normalize(x, *self.norm, options.rms, options.epsilon)
        self.cache.advance()
        return torch.from_numpy(kernels.linear(x, self.head, EMPTY))

    def reorder(self, source_lengths: Tensor | None) -> None:
        """Use the arrays of the cache after its rows have been reordered, and the reordered source lengths."""
        self.source_lengths = source_lengths
        self._view_cache()


def _array(x: Tensor) -> Array:
    """Return an array that shares the tensor's memory."""
    return x.detach().contiguous().numpy()


def _bias(module: Any) -> Array:
    bias = getattr(module, "bias", None)
    return EMPTY if bias is None else _array(bias)


def _sublayers(layer: Any) -> tuple[Sublayer, Sublayer | None, Sublayer]:
    """Return the weights of self-attention, of attention over a source (if any) and of feed-forward."""
    attention, cross, feed = layer.attention, layer.cross, layer.feed
    source = None if cross is None else _sublayer(layer.cross_norm, cross.qkv, cross.out, cross.heads * cross.d_k)
    own = _sublayer(layer.attention_norm, attention.qkv, attention.out)
    return own, source, _sublayer(layer.feed_norm, feed.up, feed.down)


def _sublayer(norm: Any, first: Any, last: Any, outputs: int | None = None) -> Sublayer:
    """Return the weights of a sublayer; `outputs`, if given, limits the outputs of the first projection."""
    return Sublayer(
        _array(norm.weight), _bias(norm),
        _array(first.weight)[:outputs], _bias(first)[:outputs],
        _array(last.weight), _bias(last),
    )  # fmt: skip


def _rotary_factors(rotary: Any, capacity: int) -> tuple[Array, Array]:
    """Return cosines and sines of every position, (capacity, d_k / 2), found by rotating (1 … 1, 0 … 0)."""
    half = rotary.d_k // 2
    ones = torch.cat((torch.ones(half), torch.zeros(half))).expand(1, capacity, -1)
    rotated = rotary.rotate(ones)[0].numpy()
    return np.ascontiguousarray(rotated[:, :half]), np.ascontiguousarray(rotated[:, half:])
