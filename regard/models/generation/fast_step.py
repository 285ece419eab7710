"""One token through a decoder, in as few torch calls as it takes.

A single token is so little work that calling modules, checking shapes and looking up options takes longer than the
arithmetic: this is the same arithmetic with all of that done beforehand, some fifteen calls a layer. Equal to the
modules to rounding (tests/models/test_generate.py); used by `generate` when nothing but the models' own modules is
in the way of it and nobody watches them.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.transformer.decoding_cache import DecodingCache
from regard.models.transformer.feedforward import activated
from regard.models.transformer.layer import Layer
from regard.models.transformer.seq2seq import Seq2Seq
from regard.nn import Rotary


class Step:
    """The next token of every row: tokens (B,) → scores (B, V).

    model           a Decoder or Seq2Seq
    past            what it keeps, with the prompt already in it
    source_lengths  (B,) of a source, if some of it is padding
    """

    def __init__(self, model: Any, past: DecodingCache, source_lengths: Tensor | None = None) -> None:
        writer: Any = model.decoder if isinstance(model, Seq2Seq) else model
        config, table, room = model.config, writer.embedding.weight, past.storage.shape[4]
        self.past, self.table, self.scale = past, table, writer.embedding.scale
        self.pre = config.norm == "pre"
        self.norm = None if writer.norm is None else _norm(writer.norm)
        self.head = _linear(model.table, None)
        self.parts = [_Part(layer, self.pre) for layer in writer.layers]
        places, rotary = writer.embedding.places, writer.layers[0].attention.rotary
        self.places = None if places is None else places(table.new_zeros(room, config.d_model))
        self.turns = None if rotary is None else _turns(rotary, room, table)
        alibi = writer.layers[0].attention.alibi
        # By distance, nearest last; the heads of all rows and the last t + 1 of it are what a token at place t needs.
        self.nearness = None if alibi is None else alibi.values(
            torch.arange(config.heads)[:, None, None], torch.arange(room - 1, -1, -1)
        ).to(table)  # fmt: skip
        self.visible = self.source_visible = None
        if past.before is not None:
            self.visible = _hiding(torch.arange(room) >= past.before.cpu()[:, None], table)
        if source_lengths is not None:
            size = past.sources[0].keys.shape[2]
            self.source_visible = _hiding(torch.arange(size) < source_lengths.cpu()[:, None], table)

    def __call__(self, tokens: Int[Tensor, " b"]) -> Float[Tensor, "b v"]:
        past = self.past
        t = past.length
        here = t if past.before is None else t - past.before  # each row's own place
        x = torch.embedding(self.table, tokens)  # (B, D)
        if self.scale != 1:
            x = x * self.scale
        if self.places is not None:
            x = x + self.places[here]
        turns = None if self.turns is None else (self.turns[0][here], self.turns[1][here])
        visible = None if self.visible is None else self.visible[..., : t + 1]
        if self.nearness is not None:
            near = self.nearness[..., -t - 1 :]
            visible = near if visible is None else visible + near
        # The place of the new keys and values, and all keys and values, of every layer at once.
        new = past.storage.select(4, t).unbind(0)  # (2, B, H_kv, d_k) each
        held = past.storage.narrow(4, 0, t + 1).flatten(0, 1).unbind(0)  # (B, H_kv, t + 1, d_k): k, v, k, v, …
        for n, part in enumerate(self.parts):
            x = part.attend(x, new[n], held[2 * n], held[2 * n + 1], turns, visible)
            if part.crossed:
                x = part.attend_source(x, past.sources[n], self.source_visible)
            x = part.feed(x)
        past.advance()
        return self.head(x if self.norm is None else self.norm(x))

    def reorder(self, index: Tensor) -> None:
        """Make row i what row index[i] was; `past` has done so already."""
        self.visible = None if self.visible is None else self.visible[index]
        self.source_visible = None if self.source_visible is None else self.source_visible[index]


class _Part:
    """A layer with its weights at hand."""

    def __init__(self, layer: Layer, pre: bool) -> None:
        attention, cross, feed = layer.attention, layer.cross, layer.feed
        self.pre, self.heads, self.kv_heads, self.d_k = pre, attention.heads, attention.kv_heads, attention.d_k
        self.grouped, self.activation = self.heads != self.kv_heads, feed.activation
        self.qkv, self.out, self.up, self.down = (
            _linear(linear.weight, linear.bias) for linear in (attention.qkv, attention.out, feed.up, feed.down)
        )
        self.attention_norm, self.feed_norm = _norm(layer.attention_norm), _norm(layer.feed_norm)
        self.crossed = cross is not None
        if cross is not None and layer.cross_norm is not None:
            queries, bias = self.heads * self.d_k, cross.qkv.bias
            self.query = _linear(cross.qkv.weight[:queries], None if bias is None else bias[:queries])
            self.cross_out, self.cross_norm = _linear(cross.out.weight, cross.out.bias), _norm(layer.cross_norm)

    def attend(
        self,
        x: Tensor,
        new: Tensor,
        keys: Tensor,
        values: Tensor,
        turns: tuple[Tensor, Tensor] | None,
        visible: Tensor | None,
    ) -> Tensor:
        rows, heads, both = len(x), self.heads, 2 * self.kv_heads
        qkv = self.qkv(self.attention_norm(x) if self.pre else x).view(rows, heads + both, 1, self.d_k)
        if turns is not None:
            qk = qkv.narrow(1, 0, heads + self.kv_heads)
            qk.copy_(torch.addcmul(qk * turns[0], qk.roll(self.d_k // 2, -1), turns[1]))
        new.copy_(qkv.narrow(1, heads, both).view(rows, 2, self.kv_heads, self.d_k).transpose(0, 1))
        out = F.scaled_dot_product_attention(qkv.narrow(1, 0, heads), keys, values, visible, enable_gqa=self.grouped)
        y = x + self.out(out.view(rows, heads * self.d_k))
        return y if self.pre else self.attention_norm(y)

    def attend_source(self, x: Tensor, known: Any, visible: Tensor | None) -> Tensor:
        rows, heads = len(x), self.heads
        q = self.query(self.cross_norm(x) if self.pre else x).view(rows, heads, 1, self.d_k)
        out = F.scaled_dot_product_attention(q, known.keys, known.values, visible, enable_gqa=self.grouped)
        y = x + self.cross_out(out.view(rows, heads * self.d_k))
        return y if self.pre else self.cross_norm(y)

    def feed(self, x: Tensor) -> Tensor:
        y = x + self.down(activated(self.up(self.feed_norm(x) if self.pre else x), self.activation))
        return y if self.pre else self.feed_norm(y)


Call = Callable[[Tensor], Tensor]


def _linear(weight: Tensor, bias: Tensor | None) -> Call:
    """x Wᵀ + b. Many outputs of few inputs are read faster when W lies by columns, so then it is laid so."""
    columns = weight.t()
    if weight.shape[0] > weight.shape[1]:
        columns = columns.contiguous()
    if bias is None:
        return lambda x: torch.mm(x, columns)
    return lambda x: torch.addmm(bias, x, columns)


def _norm(norm: nn.LayerNorm | nn.RMSNorm) -> Call:
    shape, weight, eps = norm.normalized_shape, norm.weight, norm.eps
    if isinstance(norm, nn.RMSNorm):
        return lambda x: torch.rms_norm(x, shape, weight, eps)
    bias, least = norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, least)


def _hiding(visible: Tensor, like: Tensor) -> Tensor:
    """What is added to scores of one query: 0 where a key (B, S) is visible, −∞ elsewhere; (B, 1, 1, S)."""
    added = torch.zeros(visible.shape).masked_fill(~visible, float("-inf"))
    return added.to(like)[:, None, None]


def _turns(rotary: Rotary, room: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines [c c] and sines [−s s] of every place, (room, 1, 1, d_k): x ∘ cos + (x, halves swapped) ∘ sin.

    They are read off the layer's own rotation, of a vector whose first halves are 1 and second halves 0.
    """
    half = rotary.d_k // 2
    ones = torch.cat((like.new_ones(half), like.new_zeros(half))).expand(room, -1)
    cos, sin = rotary.rotate(ones[None])[0].split(half, -1)
    return torch.cat((cos, cos), -1)[:, None, None], torch.cat((-sin, sin), -1)[:, None, None]
