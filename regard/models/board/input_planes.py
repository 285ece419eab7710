"""Fixed input planes of a board network, computed from the stones.

With `lines=4`, sixteen planes are added to the two planes of stones:

    squares where an own stone completes four in a row
    squares where a stone of the opponent does
    squares where a stone can be played now
    every other row, counted from the bottom
    for own open lines, then for the opponent's (a line is open while the other side has no stone in it):
        in each of the four directions, the stones of the fullest line through the square, divided by three
        the number of lines through the square with two stones, and the number of all of them

The planes contain no information beyond the stones and look no move ahead. But a line is a product of four squares, up
to six squares apart, which convolutions would have to learn for each direction, and whether a threat is in an odd or
even row decides who can use it in the end. One convolution with n − 1 ones counts the other stones of a line.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

DIRECTIONS = ((1, 0), (0, 1), (1, 1), (1, -1))  # steps (rows down, columns right)
OPEN_LINE_PLANES = len(DIRECTIONS) + 2  # number of planes for each side
ADDED_PLANES = 4 + 2 * OPEN_LINE_PLANES


class LinePlanes(nn.Module):
    """Adds the sixteen planes to the two of the stones: (B, 2, rows, columns) → (B, 18, rows, columns).

    >>> planes = torch.zeros(1, 2, 6, 7)
    >>> planes[0, 0, 5, 1:4] = 1                                 # three in the bottom row
    >>> result = LinePlanes(4)(planes)[0]
    >>> result[2].nonzero().tolist()                             # either end completes four
    [[5, 0], [5, 4]]
    >>> result[7, 5].tolist()                                    # the fullest line along the row, by square
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.6666666865348816, 0.3333333432674408]
    """

    def __init__(self, inarow: int) -> None:
        super().__init__()
        self.inarow = inarow
        self.others: Tensor  # 3 dimensions: with 4 it would become channels-last, which torchrun cannot send
        self.register_buffer("others", _other_squares(inarow), persistent=False)

    def forward(self, planes: Float[Tensor, "b 2 rows columns"]) -> Float[Tensor, "b _ rows columns"]:
        batch, _, rows, columns = planes.shape
        taken = planes.sum(1, keepdim=True)
        own = planes.reshape(2 * batch, 1, rows, columns)
        other = planes.flip(1).reshape(2 * batch, 1, rows, columns)
        others, reach = self.others[:, None].to(planes.dtype), self.inarow - 1
        # (2B, directions, places in the line, rows, columns)
        stones = F.conv2d(own, others, padding=reach).unflatten(1, (len(DIRECTIONS), self.inarow))
        outside = F.pad(other, [reach] * 4, value=1.0)  # lines that leave the board are not open
        closed = F.conv2d(outside, others).unflatten(1, (len(DIRECTIONS), self.inarow))
        is_open = ((closed < 0.5) & (other < 0.5)[:, :, None]).to(planes.dtype)
        in_line = (stones + own[:, :, None]) * is_open
        completed = (stones.amax((1, 2)) > reach - 0.5).to(planes.dtype).reshape(batch, 2, rows, columns)
        nearly = ((in_line - (self.inarow - 2)).abs() < 0.5).to(planes.dtype) * is_open
        lines = torch.cat((in_line.amax(2) / reach, _count(nearly) / 4, _count(is_open) / 8), 1)
        supported = F.pad(taken[:, :, 1:], (0, 0, 0, 1), value=1.0)  # there is a stone or the bottom edge below
        odd = (torch.arange(rows, 0, -1, device=planes.device) % 2).to(planes.dtype)
        odd_rows = odd[:, None].expand(batch, 1, rows, columns)
        free = 1 - taken
        return torch.cat(
            (planes, completed * free, supported * free, odd_rows, lines.reshape(batch, -1, rows, columns)), 1
        )


def _count(lines: Float[Tensor, "b directions places rows columns"]) -> Float[Tensor, "b 1 rows columns"]:
    return lines.sum((1, 2))[:, None]


def _other_squares(inarow: int) -> Float[Tensor, "k w w"]:
    """Return, for each direction and place in a line, a kernel with ones at the other squares of the line."""
    middle, kernels = inarow - 1, []
    for down, right in DIRECTIONS:
        for here in range(inarow):
            kernel = torch.zeros(2 * inarow - 1, 2 * inarow - 1)
            for place in range(inarow):
                if place != here:
                    kernel[middle + (place - here) * down, middle + (place - here) * right] = 1
            kernels.append(kernel)
    return torch.stack(kernels)
