"""What a board network is shown beside the stones: a first layer that is not learnt.

With `lines=4`, sixteen planes join the two of the stones:

    where a stone of one's own would complete four in a row
    where one of the opponent's would
    where a stone can come to lie now
    every other row, counted from the bottom
    of one's own open lines, and then of the opponent's (a line is open while the other side has no stone in it):
        in each of the four directions, how many stones the fullest one through the square has, of three
        how many through the square have two stones, and how many there are at all

They say nothing that the stones do not say, and look no move ahead; but a line is a product of four squares, up to six
apart, which a stack of convolutions has to find out for each direction, and whether the row of a threat is odd or even
decides who gets it in the end. (n − 1 ones at the right offsets count the other stones of a line: one convolution.)
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

DIRECTIONS = ((1, 0), (0, 1), (1, 1), (1, -1))  # rows down, columns right
OPEN_LINES = len(DIRECTIONS) + 2  # planes for each side
ADDED = 4 + 2 * OPEN_LINES


class Lines(nn.Module):
    """Planes (B, 2, rows, columns) → (B, 18, rows, columns).

    >>> planes = torch.zeros(1, 2, 6, 7)
    >>> planes[0, 0, 5, 1:4] = 1                                 # three in the bottom row
    >>> shown = Lines(4)(planes)[0]
    >>> shown[2].nonzero().tolist()                              # either end completes four
    [[5, 0], [5, 4]]
    >>> shown[7, 5].tolist()                                     # the fullest line along the row, by square
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.6666666865348816, 0.3333333432674408]
    """

    def __init__(self, inarow: int) -> None:
        super().__init__()
        self.inarow = inarow
        self.others: Tensor  # three dimensions: of four they would become channels-last, which torchrun cannot send
        self.register_buffer("others", _other_squares(inarow), persistent=False)

    def forward(self, planes: Float[Tensor, "b 2 rows columns"]) -> Float[Tensor, "b _ rows columns"]:
        batch, _, rows, columns = planes.shape
        taken = planes.sum(1, keepdim=True)
        own = planes.reshape(2 * batch, 1, rows, columns)
        other = planes.flip(1).reshape(2 * batch, 1, rows, columns)
        others, reach = self.others[:, None].to(planes.dtype), self.inarow - 1
        # (2B, directions, places in the line, rows, columns)
        stones = F.conv2d(own, others, padding=reach).unflatten(1, (len(DIRECTIONS), self.inarow))
        outside = F.pad(other, [reach] * 4, value=1.0)  # no line goes on there either
        closed = F.conv2d(outside, others).unflatten(1, (len(DIRECTIONS), self.inarow))
        is_open = ((closed < 0.5) & (other < 0.5)[:, :, None]).to(planes.dtype)
        held = (stones + own[:, :, None]) * is_open
        completed = (stones.amax((1, 2)) > reach - 0.5).to(planes.dtype).reshape(batch, 2, rows, columns)
        nearly = ((held - (self.inarow - 2)).abs() < 0.5).to(planes.dtype) * is_open
        lines = torch.cat((held.amax(2) / reach, _count(nearly) / 4, _count(is_open) / 8), 1)
        below = F.pad(taken[:, :, 1:], (0, 0, 0, 1), value=1.0)  # the ground carries stones
        odd = (torch.arange(rows, 0, -1, device=planes.device) % 2).to(planes.dtype)
        rows_seen = odd[:, None].expand(batch, 1, rows, columns)
        free = 1 - taken
        return torch.cat(
            (planes, completed * free, below * free, rows_seen, lines.reshape(batch, -1, rows, columns)), 1
        )


def _count(which: Float[Tensor, "b directions places rows columns"]) -> Float[Tensor, "b 1 rows columns"]:
    return which.sum((1, 2))[:, None]


def _other_squares(inarow: int) -> Float[Tensor, "k w w"]:
    """For each direction and each place of a square in a line, ones where the other squares of the line are."""
    middle, kernels = inarow - 1, []
    for down, right in DIRECTIONS:
        for here in range(inarow):
            kernel = torch.zeros(2 * inarow - 1, 2 * inarow - 1)
            for place in range(inarow):
                if place != here:
                    kernel[middle + (place - here) * down, middle + (place - here) * right] = 1
            kernels.append(kernel)
    return torch.stack(kernels)
