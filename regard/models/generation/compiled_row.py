"""One row being written, token by token, by the compiled loops of `loops.py`."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.models.generation import compiled_layer as loops
from regard.models.transformer.decoding_cache import DecodingCache
from regard.models.transformer.seq2seq import Seq2Seq

NOTHING: NDArray[np.float32] = np.empty(0, np.float32)


class Row:
    """The next token of one row: tokens (1,) → scores (1, V). As `Step`, for float32 on the CPU."""

    def __init__(self, model: Any, past: DecodingCache) -> None:
        writer: Any = model.decoder if isinstance(model, Seq2Seq) else model
        config = model.config
        self.past, self.scale = past, np.float32(writer.embedding.scale)
        self.table, self.head = _array(writer.embedding.weight), _array(model.table)
        self.kind = loops.Kind(
            config.heads,
            config.heads if config.kv_heads is None else config.kv_heads,
            config.norm == "pre",
            config.normalisation == "rms",
            config.epsilon,
            loops.ACTIVATIONS.index(config.activation),
        )
        self.parts = [(_attention(layer.attention, layer.attention_norm), _crossed(layer), _feed(layer))
                      for layer in writer.layers]  # fmt: skip
        self.norm = None if writer.norm is None else (_array(writer.norm.weight), _bias(writer.norm))
        first, room = writer.layers[0].attention, past.storage.shape[4]
        self.places = writer.embedding.places
        self.turns = None if first.rotary is None else _turns(first.rotary, room)
        self.slopes = NOTHING if first.alibi is None else np.array(first.alibi.slopes, np.float32)
        self.kept = past.storage.detach().numpy()[:, :, 0]  # (layers, 2, H_kv, room, d_k)
        self.sources = [tuple(x[0].contiguous().numpy() for x in known) for known in past.sources]

    def __call__(self, tokens: Int[Tensor, "1"]) -> Float[Tensor, "1 v"]:
        t, kind = self.past.length, self.kind
        x = self.table[int(tokens)] * self.scale
        if self.places is not None:
            # As a tensor, the place is computed alone: a table of all would be memory that grows with the text.
            x = self.places(torch.from_numpy(x)[None], torch.tensor([t]))[0].numpy()
        cos, sin = (NOTHING, NOTHING) if self.turns is None else (self.turns[0][t], self.turns[1][t])
        for n, (attention, cross, feed) in enumerate(self.parts):
            keys, values = self.kept[n]
            x = loops.self_attention(x, attention, kind, keys, values, t, cos, sin, self.slopes)
            if cross is not None:
                x = loops.source_attention(x, cross, kind, *self.sources[n])
            x = loops.feed_forward(x, feed, kind)
        if self.norm is not None:
            x = loops.normalise(x, *self.norm, kind.rms, kind.epsilon)
        self.past.advance()
        return torch.from_numpy(loops.project(self.head, NOTHING, x))[None]


def _array(x: Tensor) -> NDArray[np.float32]:
    """The tensor's own memory."""
    return x.detach().contiguous().numpy()


def _bias(module: Any) -> NDArray[np.float32]:
    bias = getattr(module, "bias", None)
    return NOTHING if bias is None else _array(bias)


def _attention(attention: Any, norm: nn.Module, rows: int | None = None) -> loops.Attention:
    """Its weights; of the packed projection the first `rows` if given."""
    packed, out = attention.qkv, attention.out
    return loops.Attention(
        _array(norm.weight), _bias(norm),  # type: ignore[arg-type]
        _array(packed.weight)[:rows], _bias(packed)[:rows],
        _array(out.weight), _bias(out),
    )  # fmt: skip


def _crossed(layer: Any) -> loops.Attention | None:
    if layer.cross is None:
        return None
    return _attention(layer.cross, layer.cross_norm, layer.cross.heads * layer.cross.d_k)


def _feed(layer: Any) -> loops.Feed:
    feed, norm = layer.feed, layer.feed_norm
    return loops.Feed(
        _array(norm.weight), _bias(norm),
        _array(feed.up.weight), _bias(feed.up),
        _array(feed.down.weight), _bias(feed.down),
    )  # fmt: skip


def _turns(rotary: Any, room: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cosines and sines of every place, (room, d_k / 2): read off the layer's own rotation of (1 … 1, 0 … 0)."""
    half = rotary.d_k // 2
    ones = torch.cat((torch.ones(half), torch.zeros(half))).expand(1, room, -1)
    turned = rotary.rotate(ones)[0].numpy()
    return np.ascontiguousarray(turned[:, :half]), np.ascontiguousarray(turned[:, half:])
