"""One attention layer in every way of attending, and the reference: the same layer with its weights edited by hand."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import regard
from regard import masks
from regard.attention.layers.sinks import attend_with_sinks

Way = Literal[
    "sdpa",
    "sdpa 3-D",
    "attend",
    "weights",
    "mean",
    "sinks",
    "softcap",
    "score function",
    "eager",
    "eager 3-D",
    "einsum",
    "operator",
    "flex",
]
WAYS: tuple[Way, ...] = (
    "sdpa", "sdpa 3-D", "attend", "weights", "mean", "sinks", "softcap", "score function",
    "eager", "eager 3-D", "einsum", "operator",
)  # fmt: skip
Edit = Callable[[Tensor], Tensor]
SOFTCAP = 1.5


def squashed(score: Tensor) -> Tensor:
    """Return changed scores; the gradient needs them, and they would be finite for a score of −inf."""
    return torch.tanh(score)


class Layer(nn.Module):
    """Multi-head attention with 4 heads, which share keys in groups if kv_heads < 4."""

    def __init__(
        self,
        way: Way = "sdpa",
        *,
        kv_heads: int = 4,
        width: int = 3,
        causal: bool = False,
        hidden: Tensor | None = None,
        bias: Tensor | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.way, self.num_heads, self.kv_heads, self.causal, self.dropout = way, 4, kv_heads, causal, dropout
        self.width = width
        self.query, self.out = nn.Linear(12, 4 * width), nn.Linear(4 * width, 12)
        self.key, self.value = nn.Linear(12, width * kv_heads), nn.Linear(12, width * kv_heads)
        self.sink_logits = nn.Parameter(torch.randn(4))
        self.hidden, self.bias = hidden, bias  # (L, S): True = hidden; added to the scores

    def inputs(self, x: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        memory = x if memory is None else memory
        pairs = ((self.query, x, 4), (self.key, memory, self.kv_heads), (self.value, memory, self.kv_heads))
        q, k, v = (f(y).unflatten(-1, (n, self.width)).transpose(-3, -2) for f, y, n in pairs)
        return q, k, v

    def added(self, q: Tensor, k: Tensor) -> Tensor:
        """Return what is added to the scores, (L, S)."""
        table = torch.zeros(q.shape[-2], k.shape[-2], dtype=q.dtype)
        if self.bias is not None:
            table = table + self.bias
        if self.hidden is not None:
            table = table.masked_fill(self.hidden, float("-inf"))
        if self.causal:
            table = table.masked_fill(torch.ones_like(table, dtype=torch.bool).triu(1), float("-inf"))
        return table

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        q, k, v = self.inputs(x, memory)
        return self.out(self.attend(q, k, v).transpose(-3, -2).flatten(-2))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        table = self.added(q, k)
        plain = self.hidden is None and self.bias is None
        mask = None if plain else table
        options = {"is_causal": self.causal} if plain else {"attn_mask": mask}
        rule = (masks.causal() if self.causal and q.shape[-2] == k.shape[-2] else None) if plain else None
        given = {"mask": rule, "bias": mask if rule is None and not plain else None}
        if self.way == "attend":
            return regard.attend(q, k, v, **given, dropout=self.dropout)
        if self.way == "softcap":
            return regard.attend(q, k, v, **given, softcap=SOFTCAP, dropout=self.dropout)
        if self.way == "score function":
            return regard.attend(q, k, v, **given, score_mod=lambda score, *_: squashed(score), dropout=self.dropout)
        if self.way in ("weights", "mean"):
            return regard.attend(q, k, v, **given, weights=True if self.way == "weights" else "mean")[0]
        if self.way == "sinks":
            return attend_with_sinks(q, k, v, self.sink_logits, **given)
        if self.way == "flex":
            rule = create_block_mask(lambda b, h, i, j: i >= j, None, None, q.shape[-2], k.shape[-2], device="cpu")
            return flex_attention(q, k, v, block_mask=rule if self.causal else None, enable_gqa=self.kv_heads < 4)
        if self.way == "sdpa":
            return F.scaled_dot_product_attention(
                q, k, v, **options, dropout_p=self.dropout, enable_gqa=self.kv_heads < 4
            )
        if self.kv_heads < 4:
            k, v = (y.repeat_interleave(4 // self.kv_heads, -3) for y in (k, v))
        if self.way == "operator":
            return torch.ops.aten.scaled_dot_product_attention(q, k, v, **options)
        if self.way == "sdpa 3-D":
            folded = (y.flatten(0, -3) for y in (q, k, v))
            return F.scaled_dot_product_attention(*folded, **options).unflatten(0, q.shape[:-2])
        if self.way == "einsum":
            w = torch.softmax(torch.einsum("bhid,bhjd->bhij", q, k) / self.width**0.5 + table, -1)
            return torch.einsum("bhij,bhjd->bihd", F.dropout(w, self.dropout), v).transpose(1, 2)
        if self.way == "eager 3-D":
            q_3d, k_3d, v_3d = (y.flatten(0, -3) for y in (q, k, v))
            w = torch.softmax(torch.bmm(q_3d * self.width**-0.5, k_3d.transpose(1, 2)) + table, -1)
            return torch.bmm(w, v_3d).unflatten(0, q.shape[:-2])
        w = torch.softmax(q @ k.transpose(-1, -2) * self.width**-0.5 + table, -1)
        return F.dropout(w, self.dropout) @ v


@dataclass
class Reference:
    """The layer by its formula, with changes."""

    layer: Layer
    edit: Edit = lambda w: w  # of the weights (B, H, L, S)
    output: Edit = lambda out: out  # of the outputs (B, H, L, d_v)

    def weights(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        layer = self.layer
        q, k, _ = layer.inputs(x, memory)
        added = layer.added(q, k)
        scores = q @ k.repeat_interleave(4 // layer.kv_heads, -3).transpose(-1, -2) * layer.width**-0.5
        if layer.way == "softcap":
            scores = torch.tanh(scores / SOFTCAP) * SOFTCAP
        if layer.way == "score function":
            hidden = added.isneginf()
            scores = squashed(scores + added.masked_fill(hidden, 0.0)).masked_fill(hidden, float("-inf"))
        else:
            scores = scores + added
        if layer.way == "sinks":
            sinks = layer.sink_logits[:, None, None].expand(*scores.shape[:-1], 1)
            return self.edit(torch.softmax(torch.cat([scores, sinks], -1), -1)[..., :-1])
        return self.edit(torch.softmax(scores, -1).nan_to_num(0.0))

    def heads(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        v = self.layer.inputs(x, memory)[2].repeat_interleave(4 // self.layer.kv_heads, -3)
        return self.output(self.weights(x, memory) @ v)

    def __call__(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        return self.layer.out(self.heads(x, memory).transpose(-3, -2).flatten(-2))


def multiplied(w: Tensor, factors: Tensor) -> Tensor:
    """Return weights multiplied by factors (B, H, L, S); each row and its sink have the same sum as before."""
    no_key, scaled = 1 - w.sum(-1, keepdim=True), w * factors
    total = scaled.sum(-1, keepdim=True) + no_key
    return scaled / total.masked_fill(total.abs() < 1e-12, 1.0)
