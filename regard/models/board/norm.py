"""Norms of a feature map, and folding of a batch norm into the convolution before or after it."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.types import Device

from regard.models.board.config import BoardNorm

EPSILON, MOMENTUM = 1e-5, 0.1


class BatchNorm(nn.Module):
    """nn.BatchNorm2d without the buffer `num_batches_tracked`, which a fixed momentum does not need."""

    def __init__(self, channels: int, device: Device = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(channels, **factory))
        self.bias = nn.Parameter(torch.empty(channels, **factory))
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.empty(channels, **factory))
        self.register_buffer("variance", torch.empty(channels, **factory))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set weight and variance to 1, bias and mean to 0."""
        for x, value in ((self.weight, 1.0), (self.bias, 0.0), (self.mean, 0.0), (self.variance, 1.0)):
            nn.init.constant_(x, value)

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, self.training, MOMENTUM, EPSILON)

    def scale_and_shift(self) -> tuple[Tensor, Tensor]:
        """Return a and b of each channel in float64: in eval mode the norm is a·x + b."""
        scale = self.weight.double() / (self.variance.double() + EPSILON).sqrt()
        return scale, self.bias.double() - scale * self.mean.double()


def build_norm(kind: BoardNorm, channels: int, **factory: Any) -> nn.Module:
    """Return the norm with this name, over the channels of a feature map; `factory` is device= and dtype=."""
    if kind == "batch":
        return BatchNorm(channels, **factory)
    return nn.GroupNorm(1, channels, eps=EPSILON, **factory) if kind == "group" else nn.Identity()


def fold_after(target: nn.Conv2d, conv: nn.Conv2d, norm: BatchNorm) -> None:
    """Give `target` the weights and bias of norm(conv(x)): a·(W x) + b = (a W) x + b."""
    scale, shift = norm.scale_and_shift()
    _assign(target, conv.weight.double() * scale[:, None, None, None], shift)


def fold_before(target: nn.Conv2d, norm: BatchNorm, conv: nn.Conv2d) -> None:
    """Give `target` the weights and bias of conv(norm(x)), for a 1×1 convolution, which has no padding.

    W (a·x + b) + c = (W a) x + (W b + c)
    """
    scale, shift = norm.scale_and_shift()
    weight = conv.weight.double()
    bias = torch.zeros(len(weight), dtype=torch.float64) if conv.bias is None else conv.bias.double()
    _assign(target, weight * scale[None, :, None, None], bias + weight.flatten(1) @ shift)


def _assign(conv: nn.Conv2d, weight: Tensor, bias: Tensor) -> None:
    assert conv.bias is not None
    conv.weight.copy_(weight)
    conv.bias.copy_(bias)
