"""Line attention by learnt biases: what a head adds to a score for the direction and distance between two squares.

A mask says which squares are seen; a bias says how much. From a square, every other square on one of its four lines
lies in one of eight directions, at a distance of 1, 2, 3 … squares:

    score(q, k) += bias[head, direction, distance]        on the same row, column or diagonal
    score(q, k) += bias[head, elsewhere]                  on none of these
    score(q, k) += bias[head, here]                       the square itself

The distances from FARTHEST on share a number, so that the weights serve a board of any size. All biases start at 0:
an untrained layer is that without them.
"""

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

FARTHEST = 7
DIRECTIONS = 8  # the signs of (rows down, columns right), clockwise from up
HERE, ELSEWHERE = DIRECTIONS * FARTHEST, DIRECTIONS * FARTHEST + 1
KINDS = ELSEWHERE + 1


@lru_cache(maxsize=64)
def kinds(rows: int, columns: int) -> Int[Tensor, "s s"]:
    """Which number of a bias stands between two squares, counted row by row: query first, key second.

    >>> between = kinds(6, 7)
    >>> between[0, 0].item() == HERE, between[0, 9].item() == ELSEWHERE     # the corner, and a knight's move away
    (True, True)
    >>> between[0, 1] != between[0, 2], between[0, 1] == between[8, 9]      # by distance, wherever it is
    (tensor(True), tensor(True))
    """
    with torch.inference_mode(False), torch.device("cpu"):
        row, column = torch.arange(rows * columns) // columns, torch.arange(rows * columns) % columns
        down, right = row[None, :] - row[:, None], column[None, :] - column[:, None]
        distance = torch.maximum(down.abs(), right.abs())
        on_line = (down == 0) | (right == 0) | (down.abs() == right.abs())
        compass = {(-1, 0): 0, (-1, 1): 1, (0, 1): 2, (1, 1): 3, (1, 0): 4, (1, -1): 5, (0, -1): 6, (-1, -1): 7}
        direction = torch.zeros_like(down)
        for (vertical, across), number in compass.items():
            direction[(down.sign() == vertical) & (right.sign() == across)] = number
        found = direction * FARTHEST + distance.clamp(1, FARTHEST) - 1
        return found.where(on_line, ELSEWHERE).where(distance > 0, HERE)


class LineBias(nn.Module):
    """Biases (heads, S, S) of the scores between squares, learnt.

    A head's numbers are the mean of those of its channels. So they do not depend on the number of heads, which may
    change (`BoardNet.set_heads`): a head that is cut in two hands its bias on to both, and joined heads share the mean.

    >>> LineBias(channels=16)(6, 7, heads=8).shape
    torch.Size([8, 42, 42])
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(channels, KINDS))

    def forward(self, rows: int, columns: int, heads: int) -> Float[Tensor, "h s s"]:
        by_head = self.weight.unflatten(0, (heads, -1)).mean(1)  # (heads, KINDS)
        return by_head[:, kinds(rows, columns).to(self.weight.device)]
