"""Norms of a feature map, and how a norm and the linear map before or after it become one linear map."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.board.config import BoardNorm

EPSILON, MOMENTUM = 1e-5, 0.1


class BatchNorm(nn.Module):
    """x (B, C, H, W) with every channel of the batch at mean 0 and variance 1, then scaled and shifted.

    What nn.BatchNorm2d does, without its counter of batches, which is no weight and is not needed when the moving
    averages have a fixed momentum.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, self.training, MOMENTUM, EPSILON)

    def line(self) -> tuple[Tensor, Tensor]:
        """In eval the norm is a·x + b for every channel: a and b, in float64."""
        scale = self.weight.double() / (self.variance.double() + EPSILON).sqrt()
        return scale, self.bias.double() - scale * self.mean.double()


def norm_of(kind: BoardNorm, channels: int) -> nn.Module:
    """The norm by its name, over the channels of a feature map."""
    if kind == "batch":
        return BatchNorm(channels)
    return nn.GroupNorm(1, channels, eps=EPSILON) if kind == "group" else nn.Identity()


def fold_after(into: nn.Conv2d, conv: nn.Conv2d, norm: BatchNorm) -> None:
    """Give `into` the weights and bias of norm(conv(x)).

    a·(W x) + b = (a W) x + b
    """
    scale, shift = norm.line()
    _assign(into, conv.weight.double() * scale[:, None, None, None], shift)


def fold_before(into: nn.Conv2d, norm: BatchNorm, conv: nn.Conv2d) -> None:
    """Give `into` the weights and bias of conv(norm(x)), for a 1×1 convolution, which sees no zeros at a border.

    W (a·x + b) + c = (W a) x + (W b + c)
    """
    scale, shift = norm.line()
    weight = conv.weight.double()
    bias = torch.zeros(len(weight), dtype=torch.float64) if conv.bias is None else conv.bias.double()
    _assign(into, weight * scale[None, :, None, None], bias + weight.flatten(1) @ shift)


def _assign(conv: nn.Conv2d, weight: Tensor, bias: Tensor) -> None:
    assert conv.bias is not None
    conv.weight.copy_(weight)
    conv.bias.copy_(bias)
