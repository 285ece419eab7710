"""Attention between the blocks of a board network: what each head sees, and heads whose number may change."""

import copy

import torch
from torch import Tensor, nn

from regard.models.board.attention_patterns import check_patterns, head_masks
from regard.models.board.config import BoardBias, BoardNorm
from regard.models.board.line_bias import LineBias
from regard.models.board.norm import norm_of
from regard.nn import SpatialAttention


class BoardAttention(nn.Module):
    """x (B, C, H, W) → x + attention(norm(x)), over the squares that each head sees.

    bias        "lines": heads learn what direction and distance add to a score (line_bias.py)

    >>> layer = BoardAttention(16, 4, ("all", "lines"), "batch")
    >>> layer(torch.randn(2, 16, 6, 7)).shape
    torch.Size([2, 16, 6, 7])
    """

    def __init__(
        self, channels: int, heads: int, sees: tuple[str, ...], norm: BoardNorm, bias: BoardBias = "none"
    ) -> None:
        super().__init__()
        self.sees, self.blend = sees, 1.0
        self.norm = norm_of(norm, channels)
        self.squares = SpatialAttention(channels, heads, residual=False)
        self.bias = LineBias(channels) if bias == "lines" else None
        # The heads as they were, with the same weights: in a tuple, so that they are not counted twice.
        self.before: tuple[SpatialAttention, ...] = ()

    def set_heads(self, heads: int, before: int, blend: float) -> None:
        """`heads` heads with the share `blend`, `before` heads with the rest."""
        for count in (heads, before):
            check_patterns(self.sees, count)
        self.squares.heads, self.blend, self.before = heads, blend, ()
        if blend < 1 and heads != before:
            self.before = (copy.copy(self.squares),)  # shallow: it has the very same projections
            self.before[0].heads = before

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        found = self._seen(self.squares, normed)
        if self.before:
            found = torch.lerp(self._seen(self.before[0], normed), found, self.blend)
        return x + found

    def _seen(self, squares: SpatialAttention, x: Tensor) -> Tensor:
        mask = head_masks(self.sees, squares.heads, *x.shape[-2:])
        bias = None if self.bias is None else self.bias(*x.shape[-2:], squares.heads)
        found: Tensor = squares(x, mask=None if mask is None else mask.to(x.device), bias=bias)
        return found
