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

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.types import Device

from regard.attention.kernels.private_torch_operators import has_memory, in_graph
from regard.extras import installed
from regard.numba_functions import compiled

DIRECTIONS = ((1, 0), (0, 1), (1, 1), (1, -1))  # steps (rows down, columns right)
OPEN_LINE_PLANES = len(DIRECTIONS) + 2  # number of planes for each side
ADDED_PLANES = 4 + 2 * OPEN_LINE_PLANES
_STEPS = np.array(DIRECTIONS)


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

    def __init__(self, inarow: int, device: Device = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.inarow = inarow
        self.others: Tensor  # 3 dimensions: with 4 it would become channels-last, which torchrun cannot send
        self.register_buffer("others", _other_squares(inarow).to(device, dtype), persistent=False)

    def reset_parameters(self) -> None:
        """Compute the kernels again; there are no parameters."""
        self.others.copy_(_other_squares(self.inarow))

    def forward(self, planes: Float[Tensor, "b 2 rows columns"]) -> Float[Tensor, "b _ rows columns"]:
        batch, _, rows, columns = planes.shape
        if _use_numba(planes):
            return torch.from_numpy(compute_planes(planes.detach().contiguous().numpy(), self.inarow))
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


def compute_planes(planes: NDArray[np.float32], inarow: int, zeros: int = 0) -> NDArray[np.float32]:
    """Return what `LinePlanes(inarow)` returns, (B, 18, rows, columns), and `zeros` planes of zeros after it.

    It is compiled, if numba is installed.
    """
    result = np.zeros((len(planes), 2 + ADDED_PLANES + zeros, *planes.shape[2:]), np.float32)
    _write_planes(planes, inarow, _STEPS, result)
    return result


def _use_numba(planes: Tensor) -> bool:
    return (
        planes.is_cpu
        and type(planes) is Tensor
        and planes.dtype == torch.float32
        and not (torch.is_grad_enabled() and planes.requires_grad)
        and not in_graph(planes)
        and installed("numba")
        and has_memory(planes)
    )


@compiled(nogil=True, error_model="numpy")
def _write_planes(planes: Any, inarow: int, directions: Any, out: Any) -> None:
    """Write the 18 planes of every position to out (B, 18, rows, columns), as `LinePlanes.forward` computes them.

    `out` contains zeros. It visits each line once, where the convolutions visit it once for each of its squares.
    """
    rows, columns, reach = planes.shape[2], planes.shape[3], inarow - 1
    full = np.float32(reach)
    for board in range(len(planes)):
        stones, result = planes[board], out[board]
        for row in range(rows):
            for column in range(columns):
                result[0, row, column], result[1, row, column] = stones[0, row, column], stones[1, row, column]
                supported = np.float32(1)
                if row + 1 < rows:
                    supported = stones[0, row + 1, column] + stones[1, row + 1, column]
                free = np.float32(1) - (stones[0, row, column] + stones[1, row, column])
                result[4, row, column], result[5, row, column] = supported * free, (rows - row) % 2
        for side in range(2):
            first = 6 + side * OPEN_LINE_PLANES
            for direction in range(len(directions)):
                down, right = directions[direction]
                for row in range(rows - reach * down):
                    for column in range(max(0, -reach * right), columns - max(0, reach * right)):
                        own, others = np.float32(0), np.float32(0)
                        for step in range(inarow):
                            own += stones[side, row + step * down, column + step * right]
                            others += stones[1 - side, row + step * down, column + step * right]
                        nearly = np.float32(0.25) if abs(own - (inarow - 2)) < 0.5 else np.float32(0)
                        for step in range(inarow):
                            r, c = row + step * down, column + step * right
                            if own - stones[side, r, c] > reach - 0.5:
                                result[2 + side, r, c] = np.float32(1) - (stones[0, r, c] + stones[1, r, c])
                            if others < 0.5:
                                result[first + direction, r, c] = max(result[first + direction, r, c], own / full)
                                result[first + 4, r, c] += nearly
                                result[first + 5, r, c] += np.float32(0.125)


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
