"""Self-attention over the squares of a feature map (B, C, H, W).

Every square is a token of C channels. There are H·W tokens, and each may attend to every other:

    qkv = conv1×1(x)                       (B, 3·C, H, W), read as (B, 3, heads, C/heads, H·W)
    out = x + conv1×1(attend(q, k, v))     (B, C, H, W)

A 1×1 convolution is a linear layer on the channels of each square, and is computed as one with channels last. Then q, k
and v are views of its result, and a feature map in torch's channels-last format is not copied.
"""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.types import Device

from regard.attention.argument_checks import check_dropout
from regard.attention.attend_function import attend
from regard.attention.layers.head_count import fit_heads
from regard.attention.layers.multi_head_attention import xavier_uniform_each
from regard.attention.masks import Mask

MaskLike = Mask | Bool[Tensor, "..."]


class SpatialAttention(nn.Module):
    """Multi-head self-attention over a feature map (B, C, H, W), or (C, H, W).

    channels        C
    heads           number of heads; it must divide C
    residual        add the input to the output
    norm            a module applied to the input before the projection, such as nn.GroupNorm(1, channels)
    bias            whether the two projections have a bias
    dropout         probability with which a weight is dropped in training; 0 in evaluation
    adjust_heads    use the nearest number of heads that divides C, with a warning, instead of raising an error
    device, dtype   of the parameters, as in every layer of torch

    Squares are counted row by row: square r·W + c is row r, column c. The output has the memory format of the input.
    The matrices of q, k, v and the output are initialised Xavier-uniform, each separately, and biases with zeros.

    >>> layer = SpatialAttention(144, 24)
    >>> board = torch.randn(2, 144, 6, 7)
    >>> layer(board).shape
    torch.Size([2, 144, 6, 7])
    >>> output, weights = layer(board, weights=True)
    >>> weights.shape                                       # weight of each pair of squares
    torch.Size([2, 24, 42, 42])
    >>> SpatialAttention(128, 24)
    Traceback (most recent call last):
    ValueError: heads must divide the channels, got 24 heads for 128 channels; the nearest counts that do are
    16 (d_k = 8) and 32 (d_k = 4)
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        *,
        residual: bool = True,
        norm: nn.Module | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        adjust_heads: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.heads = fit_heads(channels, heads, adjust_heads)
        self.channels = channels
        check_dropout(dropout)
        self.dropout, self.residual = dropout, residual
        self.norm = norm
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.qkv = nn.Conv2d(channels, 3 * channels, 1, **options)
        self.out = nn.Conv2d(channels, channels, 1, **options)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise each projection Xavier-uniform, separately, biases with zeros, and `norm` by its own rule."""
        xavier_uniform_each(self.qkv, (self.channels,) * 3)
        xavier_uniform_each(self.out, (self.channels,))
        if self.norm is not None and hasattr(self.norm, "reset_parameters"):
            self.norm.reset_parameters()  # type: ignore[operator]  # its type is nn.Module

    def forward(
        self,
        x: Tensor,
        *,
        mask: MaskLike | None = None,
        bias: Float[Tensor, "..."] | None = None,
        weights: bool | Literal["mean"] = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return attention between the squares of x (B, C, H, W), in the shape of x.

        mask        over squares: a mask of `regard.masks` or a boolean tensor that broadcasts to
                    (B, heads, H·W, H·W); **True = visible**
        bias        added to the scaled scores; a tensor that broadcasts to (B, heads, H·W, H·W)
        weights     True: also return the weights (B, heads, H·W, H·W); "mean": their mean over heads
        """
        self._check(x)
        normed = x if self.norm is None else self.norm(x)
        squares = normed.flatten(-2).transpose(-1, -2)  # (B, H·W, C)
        qkv = F.linear(squares, self.qkv.weight.flatten(1), self.qkv.bias)  # (B, H·W, 3·C)
        # (B, heads, H·W, C/heads) each
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(-3, -2) for part in qkv.chunk(3, -1))
        result = attend(q, k, v, mask, bias=bias, dropout=self.dropout if self.training else 0.0, weights=weights)
        out, maps = result if isinstance(result, tuple) else (result, None)
        merged = out.transpose(-3, -2).flatten(-2)  # (B, H·W, C)
        y = F.linear(merged, self.out.weight.flatten(1), self.out.bias).transpose(-1, -2).unflatten(-1, x.shape[-2:])
        if self.residual:
            y = x + y
        elif x.is_contiguous():
            y = y.contiguous()  # y is channels-last so far; the output has the memory format of x
        return y if maps is None else (y, maps)

    def _check(self, x: Tensor) -> None:
        if x.dim() not in (3, 4) or x.shape[-3] != self.channels:
            raise ValueError(
                f"SpatialAttention takes a feature map (B, {self.channels}, H, W), got {tuple(x.shape)}; "
                "channels must come before rows and columns"
            )
        if not x.dtype.is_floating_point:
            raise TypeError(f"SpatialAttention takes floating point numbers, got {x.dtype}; convert with .float()")

    def extra_repr(self) -> str:
        dropout = f", dropout={self.dropout}" if self.dropout else ""
        return f"channels={self.channels}, heads={self.heads}, residual={self.residual}{dropout}"
