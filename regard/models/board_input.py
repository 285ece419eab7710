"""What a board network is shown beside the stones: a first layer that is not learnt.

With `lines=4`, four planes join the two of the stones:

    where a stone of one's own would complete four in a row
    where one of the opponent's would
    where a stone can come to lie now
    every other row, counted from the bottom

They say nothing that the stones do not say, and look no move ahead; but a threat is a product of three squares, up to
six apart, which a stack of convolutions has to find out for each direction, and whether its row is odd or even decides
who gets it in the end. (n − 1 ones at the right offsets, and a count of n − 1, find it: one convolution.)
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

ADDED = 4


class Threats(nn.Module):
    """Planes (B, 2, rows, columns) → (B, 6, rows, columns).

    >>> planes = torch.zeros(1, 2, 6, 7)
    >>> planes[0, 0, 5, 1:4] = 1                                 # three in the bottom row
    >>> Threats(4)(planes)[0, 2].nonzero().tolist()
    [[5, 0], [5, 4]]
    """

    def __init__(self, inarow: int) -> None:
        super().__init__()
        self.inarow = inarow
        self.wanted: Tensor
        self.register_buffer("wanted", _windows(inarow), persistent=False)

    def forward(self, planes: Float[Tensor, "b 2 rows columns"]) -> Float[Tensor, "b 6 rows columns"]:
        batch, _, rows, columns = planes.shape
        taken = planes.sum(1, keepdim=True)
        squares = planes.reshape(2 * batch, 1, rows, columns)
        counts = F.conv2d(squares, self.wanted.to(planes.dtype), padding=self.inarow - 1)
        found = (counts.amax(1) > self.inarow - 1.5).to(planes.dtype).reshape(batch, 2, rows, columns)
        below = F.pad(taken[:, :, 1:], (0, 0, 0, 1), value=1.0)  # the ground carries stones
        odd = (torch.arange(rows, 0, -1, device=planes.device) % 2).to(planes.dtype)
        rows_seen = odd[:, None].expand(batch, 1, rows, columns)
        return torch.cat((planes, found * (1 - taken), below * (1 - taken), rows_seen), 1)


def _windows(inarow: int) -> Float[Tensor, "k 1 w w"]:
    """For each direction and each place of the missing stone, ones where the others must be."""
    middle, kernels = inarow - 1, []
    for down, right in ((1, 0), (0, 1), (1, 1), (1, -1)):
        for missing in range(inarow):
            kernel = torch.zeros(2 * inarow - 1, 2 * inarow - 1)
            for stone in range(inarow):
                if stone != missing:
                    kernel[middle + (stone - missing) * down, middle + (stone - missing) * right] = 1
            kernels.append(kernel)
    return torch.stack(kernels)[:, None]
