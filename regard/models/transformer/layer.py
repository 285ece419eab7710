"""One transformer layer: self-attention, optionally attention over a source, then feed-forward.

    post-norm (as published)       x ← norm(x + sublayer(x))
    pre-norm                       x ← x + sublayer(norm(x))           for each sublayer in turn

| layer of | sublayers |
|---|---|
| an encoder | attention, feed |
| a decoder | causal attention, feed |
| a decoder with a source | causal attention, cross, feed |
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.types import Device

from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.feedforward import FeedForward
from regard.nn import MultiHeadAttention


def build_norm(config: TransformerConfig, **factory: Any) -> nn.LayerNorm | nn.RMSNorm:
    """Return the norm over D that the configuration names; `factory` is device= and dtype=."""
    if config.normalisation == "rms":
        return nn.RMSNorm(config.d_model, eps=config.epsilon, **factory)
    return nn.LayerNorm(config.d_model, eps=config.epsilon, bias=config.bias, **factory)


class Layer(nn.Module):
    """One transformer layer: x (B, L, D) → (B, L, D).

    config      sizes, norm, activation, positions, dropout
    causal      whether a token attends only to itself and to earlier tokens
    cross       whether the layer also attends to a source
    device, dtype   of the parameters, as in every layer of torch

    >>> from regard.models import DecoderConfig
    >>> layer = Layer(DecoderConfig(100, d_model=16, heads=2), causal=True)
    >>> layer(torch.randn(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    def __init__(
        self, config: TransformerConfig, *, causal: bool = False, cross: bool = False, device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        sizes = (config.d_model, config.heads, config.kv_heads)
        options: dict[str, Any] = {"bias": config.bias, "dropout": config.attention_dropout, **factory}
        self.pre, self.dropout = config.norm == "pre", config.dropout
        self.attention = MultiHeadAttention(
            *sizes, causal=causal, rotary=config.positions == "rotary", alibi=config.positions == "alibi", **options
        )
        self.attention_norm = build_norm(config, **factory)
        self.cross = MultiHeadAttention(*sizes, **options) if cross else None
        self.cross_norm = build_norm(config, **factory) if cross else None
        self.feed = FeedForward(config.d_model, config.inner, config.activation, bias=config.bias, **factory)
        self.feed_norm = build_norm(config, **factory)

    def reset_parameters(self) -> None:
        """Initialise every sublayer and norm by its own rule."""
        reset_children(self)

    def forward(
        self, x: Float[Tensor, "b l d"], *, source: Any = None, source_mask: Any = None, **attention: Any
    ) -> Float[Tensor, "b l d"]:
        """Return x after all sublayers.

        source          the source that `cross` attends to: vectors (B, S, D), or their projected keys and values
        source_mask     which source tokens are visible
        attention       mask=, cache= and positions= of the self-attention
        """
        x = self._add(x, lambda y: self.attention(y, **attention), self.attention_norm)
        if self.cross is not None and self.cross_norm is not None:
            cross = self.cross
            x = self._add(x, lambda y: cross(y, source, mask=source_mask), self.cross_norm)
        return self._add(x, self.feed, self.feed_norm)

    def _add(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: nn.Module) -> Tensor:
        """Return x + sublayer(norm(x)) with pre-norm, norm(x + sublayer(x)) with post-norm."""
        y = sublayer(norm(x) if self.pre else x)
        if self.training and self.dropout:
            y = F.dropout(y, self.dropout)
        total = x + y
        return total if self.pre else norm(total)


def reset_children(module: nn.Module) -> None:
    """Call `reset_parameters` of each module directly inside this one; in a list, of each module of the list."""
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            reset_children(child)
        elif not isinstance(child, nn.Identity):
            child.reset_parameters()  # type: ignore[operator]  # every layer of regard and torch has it


def shrink_residuals(layers: Iterable[nn.Module]) -> None:
    """Divide the output weights of each sublayer by √(number of sublayers), as GPT-2 does, so that x stays small.

    This applies to pre-norm layers only: post-norm normalises every sum.
    """
    last: list[nn.Linear] = []
    for layer in layers:
        if isinstance(layer, Layer) and layer.pre:
            last += [layer.attention.out, layer.feed.down] + ([] if layer.cross is None else [layer.cross.out])
    with torch.no_grad():
        for linear in last:
            linear.weight *= len(last) ** -0.5
