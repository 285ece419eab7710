"""Attention sublayer of a board network: one mask per head, optional line biases, a number of heads that can change."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.types import Device

from regard.models.board.attention_patterns import check_patterns, head_masks
from regard.models.board.config import BoardBias, BoardNorm
from regard.models.board.line_bias import LineBias
from regard.models.board.norm import build_norm
from regard.models.transformer.layer import reset_children
from regard.nn import SpatialAttention


class BoardAttention(nn.Module):
    """x (B, C, H, W) → x + attention(norm(x)), over the squares that each head's pattern makes visible.

    bias        "lines": heads learn a bias for direction and distance (line_bias.py)

    >>> layer = BoardAttention(16, 4, ("all", "lines"), "batch")
    >>> layer(torch.randn(2, 16, 6, 7)).shape
    torch.Size([2, 16, 6, 7])
    """

    def __init__(
        self, channels: int, heads: int, sees: tuple[str, ...], norm: BoardNorm, bias: BoardBias = "none", *,
        device: Device = None, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.sees, self.blend = sees, 1.0
        self.norm = build_norm(norm, channels, **factory)
        self.squares = SpatialAttention(channels, heads, residual=False, **factory)
        self.bias = LineBias(channels, **factory) if bias == "lines" else None
        # The layer with its previous number of heads and the same weights; in a tuple, torch does not register it.
        self.previous: tuple[SpatialAttention, ...] = ()

    def reset_parameters(self) -> None:
        """Initialise norm, projections and biases by their own rules."""
        reset_children(self)

    def set_heads(self, heads: int, before: int, blend: float) -> None:
        """Use the output with `heads` heads times `blend` plus that with `before` heads times 1 − `blend`."""
        for count in (heads, before):
            check_patterns(self.sees, count)
        self.squares.heads, self.blend, self.previous = heads, blend, ()
        if blend < 1 and heads != before:
            self.previous = (copy.copy(self.squares),)  # shallow: the projections are shared
            self.previous[0].heads = before

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        y = self._attend(self.squares, normed)
        if self.previous:
            y = torch.lerp(self._attend(self.previous[0], normed), y, self.blend)
        return x + y

    def _attend(self, squares: SpatialAttention, x: Tensor) -> Tensor:
        mask = head_masks(self.sees, squares.heads, *x.shape[-2:])
        bias = None if self.bias is None else self.bias(*x.shape[-2:], squares.heads)
        return squares(x, mask=None if mask is None else mask.to(x.device), bias=bias)
