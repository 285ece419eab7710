"""Table of opening values: one learnt number for each group of five columns and each arrangement of stones in them.

    m = Σ table[index(group, content of its columns)]               over all groups of five columns
    value = tanh(output of the value head + m)

The values of openings follow no rule that a few convolutions could learn, but there are few openings. On a 6×7 board a
position reads 21 of half a million entries, so an update for one position hardly changes the others, and a million
positions are learnt in seconds (`regard connectx memorize`). Convolutions would change all their weights for each
position. This is an n-tuple network (Thill, Koch and Konen, Reinforcement learning with n-tuples on the game
Connect-4, 2012) whose tuples are columns.

A position and its mirror image read the same entries. The index is a hash; where two contents share an entry, the other
entries of a position compensate.

The table covers one board size and the positions that it was taught; otherwise m = 0, because its numbers say nothing
about other positions (taught_positions.py stores which ones it was taught). It does not depend on how many stones
in a row win: like the other weights, it is valid for the game it was trained on.
"""

from itertools import combinations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.types import Device

from regard.attention.kernels.private_torch_operators import has_memory, in_graph
from regard.models.board.taught_positions import column_codes, contains, position_keys

GROUP = 5  # number of columns in a group
MULTIPLIER = 0x1E3779B97F4A7C15  # multiplicative hashing: odd, its bits come from the golden ratio
SHIFT = 33  # the index is the low bits of the product after this shift


class OpeningTable(nn.Module):
    """Planes (B, 2, rows, columns) → the amount that is added to the value before tanh, (B, 1).

    rows, columns   size of the boards that the table covers
    stones          largest number of stones that it covers
    bits            the table has 2^bits entries
    taught_bytes    size of the set of positions that it was taught; with 0, it covers all positions with few stones

    >>> openings = OpeningTable(6, 7, stones=10, bits=12)
    >>> planes = torch.zeros(1, 2, 6, 7)
    >>> openings(planes), openings.table.shape, openings.indices(planes).shape
    (tensor([[0.]], grad_fn=<MulBackward0>), torch.Size([4096]), torch.Size([1, 21]))
    """

    def __init__(
        self, rows: int, columns: int, stones: int, bits: int, taught_bytes: int = 0, device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.rows, self.columns, self.stones, self.bits = rows, columns, stones, bits
        self.table = nn.Parameter(torch.zeros(1 << bits, device=device, dtype=dtype))
        self.taught: Tensor | None
        taught = torch.zeros(taught_bytes, device=device, dtype=torch.uint8) if taught_bytes else None
        self.register_buffer("taught", taught)
        groups, group_ids = _column_groups(columns)
        self.groups: Tensor
        self.group_ids: Tensor
        self.register_buffer("groups", groups.to(device), persistent=False)
        self.register_buffer("group_ids", group_ids.to(device), persistent=False)

    def reset_parameters(self) -> None:
        """Set the table to 0, forget which positions it was taught, and compute the groups of columns again."""
        nn.init.zeros_(self.table)
        if self.taught is not None:
            self.taught.zero_()
        for buffer, values in zip((self.groups, self.group_ids), _column_groups(self.columns), strict=True):
            buffer.copy_(values)

    def forward(self, planes: Float[Tensor, "b 2 rows columns"]) -> Float[Tensor, "b 1"]:
        if planes.shape[2:] != (self.rows, self.columns):
            return planes.new_zeros(len(planes), 1)
        covered = self.covers(planes)
        if not torch.is_grad_enabled() and _readable(covered):
            result = planes.new_zeros(len(planes), 1)
            if bool(covered.any()):
                result[covered] = self.table[self.indices(planes[covered])].sum(1, keepdim=True)
            return result
        return self.table[self.indices(planes)].sum(1, keepdim=True) * covered[:, None]

    def amounts(self, planes: Float[np.ndarray, "b 2 rows columns"]) -> Float[np.ndarray, "b 1"]:
        """Return the same as `forward`; it is faster where all positions have too many stones for the table."""
        if not self.few_stones(planes).any():
            return np.zeros((len(planes), 1), np.float32)
        with torch.inference_mode():
            return np.asarray(self(torch.from_numpy(planes)).numpy())

    def few_stones(self, planes: Float[np.ndarray, "b 2 rows columns"]) -> Bool[np.ndarray, " b"]:
        """Return which positions have so few stones that the table may cover them."""
        return np.asarray(planes.sum((1, 2, 3)) <= self.stones)

    def covers(self, planes: Float[Tensor, "b 2 rows columns"]) -> Bool[Tensor, " b"]:
        """Return which positions have the table's board size and few enough stones, and were taught."""
        if planes.shape[2:] != (self.rows, self.columns):
            return torch.zeros(len(planes), dtype=torch.bool, device=planes.device)
        if self.taught is not None and _readable(planes):  # NumPy has less overhead for few positions
            array = planes.detach().numpy()
            result = self.few_stones(array)
            if result.any():
                keys = position_keys(column_codes(array[result]), self.rows + 1)
                result[result] = contains(self.taught.numpy(), keys)
            return torch.from_numpy(result)
        few = planes.sum((1, 2, 3)) <= self.stones
        if self.taught is None:
            return few
        return few & contains(self.taught, position_keys(self._column_codes(planes), self.rows + 1))

    def indices(self, planes: Float[Tensor, "b 2 rows columns"]) -> Int[Tensor, "b groups"]:
        """Return, for each group of five columns, the index of the table entry that it reads."""
        columns = self._column_codes(planes)
        groups = columns[:, self.groups]  # (B, G, 5)
        size = groups.shape[-1]
        digits = 2 ** ((self.rows + 1) * torch.arange(size - 1, -1, -1, device=planes.device))
        ids = self.group_ids * 2 ** ((self.rows + 1) * size)
        code = torch.minimum((groups * digits).sum(-1) + ids[0], (groups.flip(-1) * digits).sum(-1) + ids[1])
        return (code * MULTIPLIER >> SHIFT) & ((1 << self.bits) - 1)

    def _column_codes(self, planes: Float[Tensor, "b 2 rows columns"]) -> Int[Tensor, "b columns"]:
        """Return the stones of each column as bits, from the bottom.

        A bit is 1 for an own stone, 0 for the opponent's, and 1 above the top stone.
        """
        powers = 2 ** torch.arange(self.rows - 1, -1, -1, device=planes.device)
        return (planes[:, 0].long() * powers[:, None]).sum(1) + 2 ** planes.sum((1, 2)).long()


def _readable(x: Tensor) -> bool:
    """Return whether Python can read the values at once: x is on the CPU, and no graph or transform is recorded."""
    return x.is_cpu and not in_graph(x) and has_memory(x)


def _column_groups(columns: int) -> tuple[Int[Tensor, "groups size"], Int[Tensor, "2 groups"]]:
    """Return the groups of columns, and the number of each group and of its mirror image."""
    groups = list(combinations(range(columns), min(GROUP, columns)))
    numbers = {group: number for number, group in enumerate(groups)}
    mirrored = [numbers[tuple(columns - 1 - column for column in reversed(group))] for group in groups]
    return torch.tensor(groups), torch.tensor([list(numbers.values()), mirrored])
