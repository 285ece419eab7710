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

The table covers one board size and positions with few stones; otherwise m = 0. It does not depend on how many stones
in a row win: like the other weights, it is valid for the game it was trained on.
"""

from itertools import combinations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

GROUP = 5  # number of columns in a group
MULTIPLIER = 0x1E3779B97F4A7C15  # multiplicative hashing: odd, its bits come from the golden ratio
SHIFT = 33  # the index is the low bits of the product after this shift


class OpeningTable(nn.Module):
    """Planes (B, 2, rows, columns) → the amount that is added to the value before tanh, (B, 1).

    rows, columns   size of the boards that the table covers
    stones          largest number of stones that it covers
    bits            the table has 2^bits entries

    >>> openings = OpeningTable(6, 7, stones=10, bits=12)
    >>> planes = torch.zeros(1, 2, 6, 7)
    >>> openings(planes), openings.table.shape, openings.indices(planes).shape
    (tensor([[0.]], grad_fn=<MulBackward0>), torch.Size([4096]), torch.Size([1, 21]))
    """

    def __init__(self, rows: int, columns: int, stones: int, bits: int) -> None:
        super().__init__()
        self.rows, self.columns, self.stones, self.bits = rows, columns, stones, bits
        self.table = nn.Parameter(torch.zeros(1 << bits))
        groups = list(combinations(range(columns), min(GROUP, columns)))
        numbers = {group: number for number, group in enumerate(groups)}
        mirrored = [numbers[tuple(columns - 1 - column for column in reversed(group))] for group in groups]
        self.groups: Tensor
        self.group_ids: Tensor
        self.register_buffer("groups", torch.tensor(groups), persistent=False)  # (G, 5)
        # The number of each group and of its mirror image, (2, G).
        self.register_buffer("group_ids", torch.tensor([list(numbers.values()), mirrored]), persistent=False)

    def forward(self, planes: Float[Tensor, "b 2 rows columns"]) -> Float[Tensor, "b 1"]:
        if planes.shape[2:] != (self.rows, self.columns):
            return planes.new_zeros(len(planes), 1)
        return self.table[self.indices(planes)].sum(1, keepdim=True) * self.covers(planes)[:, None]

    def covers(self, planes: Float[Tensor, "b 2 rows columns"]) -> Bool[Tensor, " b"]:
        """Return which positions have the table's board size and few enough stones."""
        fits = planes.shape[2:] == (self.rows, self.columns)
        return (planes.sum((1, 2, 3)) <= self.stones) & fits

    def indices(self, planes: Float[Tensor, "b 2 rows columns"]) -> Int[Tensor, "b groups"]:
        """Return, for each group of five columns, the index of the table entry that it reads.

        A column is encoded as bits from the bottom: 1 for an own stone, 0 for the opponent's, and 1 above the top one.
        """
        powers = 2 ** torch.arange(self.rows - 1, -1, -1, device=planes.device)
        own = (planes[:, 0].long() * powers[:, None]).sum(1)
        columns = own + 2 ** planes.sum((1, 2)).long()  # (B, columns)
        groups = columns[:, self.groups]  # (B, G, 5)
        size = groups.shape[-1]
        digits = 2 ** ((self.rows + 1) * torch.arange(size - 1, -1, -1, device=planes.device))
        ids = self.group_ids * 2 ** ((self.rows + 1) * size)
        code = torch.minimum((groups * digits).sum(-1) + ids[0], (groups.flip(-1) * digits).sum(-1) + ids[1])
        return (code * MULTIPLIER >> SHIFT) & ((1 << self.bits) - 1)
