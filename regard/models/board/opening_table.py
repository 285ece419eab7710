"""What openings are worth, by heart: a learnt number for every five columns as they stand.

    m = Σ table[place(group, what stands in its columns)]           over all groups of five columns
    value = tanh(what the value head reads off the squares + m)

What an opening is worth follows from no rule that a few convolutions can find, but there are not many of them. A
position touches 21 numbers of half a million, on 6×7, so that learning one changes little of what is known of others,
and a million positions are learnt in seconds (`regard connectx memorize`); convolutions would have to move all their
weights for each. This is an n-tuple network (Thill, Koch and Konen, Reinforcement learning with n-tuples on the game
Connect-4, 2012) whose tuples are columns.

A position and its mirror image find the same numbers. The place in the table is a hash, so that groups may share a
number: the others of a position set that right.

The memory is of one size of board and of few stones. Of anything else it says nothing, m = 0. How many in a row win it
cannot see: like all that a network has learnt, it is of the game that it was taught.
"""

from itertools import combinations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

GROUP = 5  # columns
SCATTER = 0x1E3779B97F4A7C15  # odd, with bits all over: the golden ratio's
SHIFT = 33  # which bits of the product are the place


class Memory(nn.Module):
    """Planes (B, 2, rows, columns) → what is added to the value, (B, 1).

    rows, columns   the size of the boards it is of
    stones          how many stones a board has at most that it is of
    bits            the table has 2^bits numbers

    >>> memory = Memory(6, 7, stones=10, bits=12)
    >>> planes = torch.zeros(1, 2, 6, 7)
    >>> memory(planes), memory.table.shape, memory.places(planes).shape
    (tensor([[0.]], grad_fn=<MulBackward0>), torch.Size([4096]), torch.Size([1, 21]))
    """

    def __init__(self, rows: int, columns: int, stones: int, bits: int) -> None:
        super().__init__()
        self.rows, self.columns, self.stones, self.bits = rows, columns, stones, bits
        self.table = nn.Parameter(torch.zeros(1 << bits))
        groups = list(combinations(range(columns), min(GROUP, columns)))
        numbers = {group: number for number, group in enumerate(groups)}
        turned = [numbers[tuple(columns - 1 - column for column in reversed(group))] for group in groups]
        self.groups: Tensor
        self.names: Tensor
        self.register_buffer("groups", torch.tensor(groups), persistent=False)  # (G, 5)
        self.register_buffer("names", torch.tensor([list(numbers.values()), turned]), persistent=False)  # (2, G)

    def forward(self, planes: Float[Tensor, "b 2 rows columns"]) -> Float[Tensor, "b 1"]:
        if planes.shape[2:] != (self.rows, self.columns):
            return planes.new_zeros(len(planes), 1)
        return self.table[self.places(planes)].sum(1, keepdim=True) * self.speaks(planes)[:, None]

    def speaks(self, planes: Float[Tensor, "b 2 rows columns"]) -> Bool[Tensor, " b"]:
        """Which positions it is of."""
        fits = planes.shape[2:] == (self.rows, self.columns)
        return (planes.sum((1, 2, 3)) <= self.stones) & fits

    def places(self, planes: Float[Tensor, "b 2 rows columns"]) -> Int[Tensor, "b groups"]:
        """Where in the table the number of each group is.

        A column is its own stones as bits, from the bottom, and one bit more above its topmost stone.
        """
        powers = 2 ** torch.arange(self.rows - 1, -1, -1, device=planes.device)
        own = (planes[:, 0].long() * powers[:, None]).sum(1)
        columns = own + 2 ** planes.sum((1, 2)).long()  # (B, columns)
        groups = columns[:, self.groups]  # (B, G, 5)
        size = groups.shape[-1]
        digits = 2 ** ((self.rows + 1) * torch.arange(size - 1, -1, -1, device=planes.device))
        name = self.names * 2 ** ((self.rows + 1) * size)
        code = torch.minimum((groups * digits).sum(-1) + name[0], (groups.flip(-1) * digits).sum(-1) + name[1])
        return (code * SCATTER >> SHIFT) & ((1 << self.bits) - 1)
