"""One token through a decoder, in as few torch calls as it takes.

A single token is so little work that calling modules, checking shapes and looking up options takes longer than the
arithmetic: this is the same arithmetic with all of that done beforehand, some fifteen calls a layer. Equal to the
modules to rounding (tests/models/test_generate.py); used by `generate` when nothing but the models' own modules is
in the way of it and nobody watches them.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import listeners
from regard.models.decoder import Decoder
from regard.models.embedding import Embedding
from regard.models.feedforward import FeedForward, activated
from regard.models.layer import Layer
from regard.models.past import Past
from regard.models.seq2seq import Reader, Seq2Seq, Writer
from regard.nn import Learned, MultiHeadAttention, Rotary, Sinusoidal

OURS = {Decoder, Seq2Seq, Reader, Writer, Embedding, Layer, FeedForward, MultiHeadAttention, Rotary, Sinusoidal, Learned}
TORCHS = {nn.ModuleList, nn.Linear, nn.LayerNorm, nn.RMSNorm}


def steppable(model: nn.Module) -> bool:
    """Whether the model may be stepped through: its modules are what they seem, and nobody looks on."""
    return (
        type(model) in (Decoder, Seq2Seq)
        and not listeners
        and not torch.is_autocast_enabled(next(model.parameters()).device.type)
        and model.config.positions != "alibi"  # type: ignore[union-attr]
        and all(
            type(module) in OURS | TORCHS and not module._forward_hooks and not module._forward_pre_hooks
            for module in model.modules()
        )
    )


class Step:
    """The next token of every row: tokens (B,) → scores (B, V).

    model           a Decoder or Seq2Seq
    past            what it keeps, with the prompt already in it
    source_lengths  (B,) of a source, if some of it is padding
    """

    def __init__(self, model: Any, past: Past, source_lengths: Tensor | None = None) -> None:
        writer: Any = model.decoder if isinstance(model, Seq2Seq) else model
        config, room = model.config, past.caches[0].buffer.shape[2]
        self.past, self.config, self.norm = past, config, writer.norm
        self.embedding, self.table = writer.embedding, model.table
        self.columns = model.table.t().contiguous()  # (D, V): many outputs of few inputs go faster by columns
        self.parts = [_Parts(layer) for layer in writer.layers]
        self.visible = None if past.before is None else _hiding(torch.arange(room) >= past.before.cpu()[:, None], self.table)
        self.source_visible = None
        if source_lengths is not None:
            size = past.sources[0].keys.shape[2]
            self.source_visible = _hiding(torch.arange(size) < source_lengths.cpu()[:, None], self.table)
        places = self.embedding.places
        self.places = None if places is None else places(self.table.new_zeros(room, config.d_model))
        rotary = writer.layers[0].attention.rotary
        self.turns = None if rotary is None else _turns(rotary, room, self.table)

    def __call__(self, tokens: Tensor) -> Tensor:
        past, config = self.past, self.config
        t, pre = past.length, config.norm == "pre"
        here = t if past.before is None else t - past.before  # each row's own place
        x = F.embedding(tokens, self.embedding.weight)  # (B, D)
        if self.embedding.scale != 1:
            x = x * self.embedding.scale
        if self.places is not None:
            x = x + self.places[here]
        turns = None if self.turns is None else (self.turns[0][here], self.turns[1][here])
        visible = None if self.visible is None else self.visible[..., : t + 1]
        for n, part in enumerate(self.parts):
            y = part.attend(part.attention_norm(x) if pre else x, past.caches[n], turns, visible)
            x = x + y if pre else part.attention_norm(x + y)
            if part.cross is not None:
                y = part.attend_source(part.cross_norm(x) if pre else x, past.sources[n], self.source_visible)
                x = x + y if pre else part.cross_norm(x + y)
            y = part.feed(part.feed_norm(x) if pre else x)
            x = x + y if pre else part.feed_norm(x + y)
        return torch.mm(x if self.norm is None else self.norm(x), self.columns)


class _Parts:
    """A layer with its weights at hand."""

    def __init__(self, layer: Layer) -> None:
        attention, feed = layer.attention, layer.feed
        self.heads, self.kv_heads, self.d_k = attention.heads, attention.kv_heads, attention.d_k
        self.grouped = self.heads != self.kv_heads
        self.qkv, self.out = (attention.qkv.weight, attention.qkv.bias), (attention.out.weight, attention.out.bias)
        self.up, self.down = (feed.up.weight, feed.up.bias), (feed.down.weight, feed.down.bias)
        self.activation = feed.activation
        self.attention_norm, self.cross_norm, self.feed_norm = layer.attention_norm, layer.cross_norm, layer.feed_norm
        self.cross = layer.cross
        if layer.cross is not None:
            width, of = self.heads * self.d_k, layer.cross
            self.query = (of.qkv.weight[:width], None if of.qkv.bias is None else of.qkv.bias[:width])
            self.cross_out = (of.out.weight, of.out.bias)

    def attend(self, y: Tensor, kept: Any, turns: tuple[Tensor, Tensor] | None, visible: Tensor | None) -> Tensor:
        t, heads = kept.length, self.heads
        qkv = F.linear(y, *self.qkv).view(len(y), -1, self.d_k)  # (B, H + 2·H_kv, d_k)
        q, kv = qkv[:, :heads], qkv[:, heads:]
        if turns is not None:
            qk, (cos, sin) = qkv[:, : heads + self.kv_heads], turns
            qk = torch.addcmul(qk * cos, qk.roll(self.d_k // 2, -1), sin)
            q = qk[:, :heads]
            kept.buffer[:, : self.kv_heads, t] = qk[:, heads:]
            kept.buffer[:, self.kv_heads :, t] = kv[:, self.kv_heads :]
        else:
            kept.buffer[:, :, t] = kv
        kept.length = t + 1
        held = kept.buffer[:, :, : t + 1]
        out = F.scaled_dot_product_attention(
            q[:, :, None], held[:, : self.kv_heads], held[:, self.kv_heads :], visible, enable_gqa=self.grouped
        )
        return F.linear(out.view(len(y), -1), *self.out)

    def attend_source(self, y: Tensor, known: Any, visible: Tensor | None) -> Tensor:
        q = F.linear(y, *self.query).view(len(y), self.heads, 1, self.d_k)
        out = F.scaled_dot_product_attention(q, known.keys, known.values, visible, enable_gqa=self.grouped)
        return F.linear(out.view(len(y), -1), *self.cross_out)

    def feed(self, y: Tensor) -> Tensor:
        return F.linear(activated(F.linear(y, *self.up), self.activation), *self.down)


def _hiding(visible: Tensor, like: Tensor) -> Tensor:
    """What is added to scores of one query: 0 where a key (B, S) is visible, −∞ elsewhere; (B, 1, 1, S)."""
    added = torch.zeros(visible.shape).masked_fill(~visible, float("-inf"))
    return added.to(like)[:, None, None]


def _turns(rotary: Rotary, room: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines [c c] and sines [−s s] of every place, (room, 1, d_k): x turned is x ∘ cos + (halves of x swapped) ∘ sin.

    They are read off the layer's own rotation, of a vector whose first halves are 1 and second halves 0.
    """
    half = rotary.d_k // 2
    ones = torch.cat((like.new_ones(half), like.new_zeros(half))).expand(room, -1)
    cos, sin = rotary.rotate(ones[None])[0].split(half, -1)
    return torch.cat((cos, cos), -1)[:, None], torch.cat((-sin, sin), -1)[:, None]
