"""One layer of a transformer: self-attention, perhaps attention over a source, then feed-forward.

    post-norm, as published        x ← norm(x + part(x))
    pre-norm                       x ← x + part(norm(x))           for each part in turn

| layer | parts |
|---|---|
| of an encoder | attention, feed |
| of a decoder alone | attention that hides the future, feed |
| of a decoder with a source | attention that hides the future, cross, feed |
"""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.models.transformer.config import Common
from regard.models.transformer.feedforward import FeedForward
from regard.nn import MultiHeadAttention


def norm_of(config: Common) -> nn.LayerNorm | nn.RMSNorm:
    """The kind of norm the configuration names, over D."""
    if config.normalisation == "rms":
        return nn.RMSNorm(config.d_model, eps=config.epsilon)
    return nn.LayerNorm(config.d_model, eps=config.epsilon, bias=config.bias)


class Layer(nn.Module):
    """x (B, L, D) → (B, L, D).

    config      sizes, norm, activation, positions, dropout
    causal      whether a token sees only itself and those before it
    cross       whether it also attends to a source

    >>> import torch
    >>> from regard.models import DecoderConfig
    >>> layer = Layer(DecoderConfig(100, d_model=16, heads=2), causal=True)
    >>> layer(torch.randn(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    def __init__(self, config: Common, *, causal: bool = False, cross: bool = False) -> None:
        super().__init__()
        sizes = (config.d_model, config.heads, config.kv_heads)
        options: dict[str, Any] = {"bias": config.bias, "dropout": config.attention_dropout}
        self.pre, self.dropout = config.norm == "pre", config.dropout
        self.attention = MultiHeadAttention(
            *sizes, causal=causal, rotary=config.positions == "rotary", alibi=config.positions == "alibi", **options
        )
        self.attention_norm = norm_of(config)
        self.cross = MultiHeadAttention(*sizes, **options) if cross else None
        self.cross_norm = norm_of(config) if cross else None
        self.feed = FeedForward(config.d_model, config.inner, config.activation, bias=config.bias)
        self.feed_norm = norm_of(config)

    def forward(
        self, x: Float[Tensor, "b l d"], *, source: Any = None, source_mask: Any = None, **attention: Any
    ) -> Float[Tensor, "b l d"]:
        """x (B, L, D) → (B, L, D).

        source          what `cross` attends to: vectors (B, S, D), or their keys and values, projected before
        source_mask     which of them are real
        attention       mask=, cache= and positions= of the self-attention
        """
        x = self._with(x, lambda y: self.attention(y, **attention), self.attention_norm)
        if self.cross is not None and self.cross_norm is not None:
            cross = self.cross
            x = self._with(x, lambda y: cross(y, source, mask=source_mask), self.cross_norm)
        return self._with(x, self.feed, self.feed_norm)

    def _with(self, x: Tensor, part: Callable[[Tensor], Tensor], norm: nn.Module) -> Tensor:
        """x and what a part adds to it, normalised before or after."""
        added = part(norm(x) if self.pre else x)
        if self.training and self.dropout:
            added = F.dropout(added, self.dropout)
        total = x + added
        return total if self.pre else norm(total)
