"""Learnt biases for lines: each head adds a number to a score that depends on direction and distance of two squares.

A mask decides which squares are visible, a bias how much they count. From a square, every other square on one of its
four lines lies in one of eight directions, at a distance of 1, 2, 3 … squares:

    score(q, k) += bias[head, direction, distance]        on the same row, column or diagonal
    score(q, k) += bias[head, OFF_LINE]                   on none of these
    score(q, k) += bias[head, SAME_SQUARE]                the square itself

Distances of at least MAX_DISTANCE share a number, so that the weights fit boards of any size. All biases start at 0,
which is attention without biases.
"""

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.types import Device

from regard.attention.kernels.private_torch_operators import may_cache_tensors
from regard.models.board.attention_patterns import offsets

MAX_DISTANCE = 7
# The signs of (rows down, columns right), clockwise from up.
DIRECTIONS = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))
SAME_SQUARE, OFF_LINE = len(DIRECTIONS) * MAX_DISTANCE, len(DIRECTIONS) * MAX_DISTANCE + 1


def bias_indices(rows: int, columns: int) -> Int[Tensor, "s s"]:
    """Return the index of the bias between two squares, numbered row by row: query first, key second.

    >>> index = bias_indices(6, 7)
    >>> index[0, 0].item() == SAME_SQUARE, index[0, 9].item() == OFF_LINE     # the corner, and a knight's move away
    (True, True)
    >>> index[0, 1] != index[0, 2], index[0, 1] == index[8, 9]      # depends on the distance, not on the place
    (tensor(True), tensor(True))
    """
    with torch.inference_mode(False), torch.device("cpu"):
        down, right = offsets(rows, columns)
        distance = torch.maximum(down.abs(), right.abs())
        on_line = (down == 0) | (right == 0) | (down.abs() == right.abs())
        direction = torch.zeros_like(down)
        for number, (vertical, horizontal) in enumerate(DIRECTIONS):
            direction.masked_fill_((down.sign() == vertical) & (right.sign() == horizontal), number)
        index = direction * MAX_DISTANCE + distance.clamp(1, MAX_DISTANCE) - 1
        return index.where(on_line, OFF_LINE).where(distance > 0, SAME_SQUARE)


_cached_indices = lru_cache(maxsize=64)(bias_indices)


class LineBias(nn.Module):
    """Learnt biases (heads, S, S) of the scores between squares.

    A head's biases are the mean over its channels, so they do not depend on the number of heads, which may change
    (`BoardNet.set_heads`): both parts of a split head start with its bias, and joined heads with the mean.

    >>> LineBias(channels=16)(6, 7, heads=8).shape
    torch.Size([8, 42, 42])
    """

    def __init__(self, channels: int, device: Device = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(channels, OFF_LINE + 1, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set all biases to 0."""
        nn.init.zeros_(self.weight)

    def forward(self, rows: int, columns: int, heads: int) -> Float[Tensor, "h s s"]:
        by_head = self.weight.unflatten(0, (heads, -1)).mean(1)  # (heads, number of biases)
        index = (_cached_indices if may_cache_tensors() else bias_indices)(rows, columns)
        return by_head[:, index.to(self.weight.device)]
