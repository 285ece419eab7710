"""ALiBi: attention with linear biases.

The score of a key is reduced in proportion to its distance, with a slope m_h that depends on the head:

    scores[h, p, j] = scale · q_p·k_j − m_h · |p − j|        m_h = 2^(−8h/H),  h = 1 … H

If the number of heads is not a power of two, the slopes are those of the next smaller power n, followed by every other
slope of 2n, as published. Under a causal mask |p − j| = p − j, the published form. Without one the bias is symmetric.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.integer_arguments import check_integer


@dataclass(frozen=True)
class Alibi:
    """A bias for `attend(bias=Alibi(H))`, computed tile by tile: the L×S×H numbers are never in memory at once.

    heads       H, the number of *query* heads
    slopes      one slope per head, derived from the number of heads

    >>> from regard.attention import attend
    >>> q, k = torch.zeros(2, 3, 4), torch.zeros(2, 3, 4)              # 2 heads, 3 queries
    >>> attend(q, k, k, bias=Alibi(2), weights=True)[1][:, -1]         # the last row of each head
    tensor([[0.3127, 0.3329, 0.3544],
            [0.3320, 0.3333, 0.3346]])
    """

    heads: int
    slopes: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_integer("Alibi(heads)", self.heads, 1, "it counts query heads")
        object.__setattr__(self, "slopes", _slopes(self.heads))

    def values(self, h: Int[Tensor, "..."], distance: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the bias of heads h at these distances (query position − key position).

        >>> Alibi(8).values(torch.tensor(0), torch.tensor([2, 1, 0, -1]))
        tensor([-1.0000, -0.5000, -0.0000, -0.5000])
        """
        return -torch.tensor(self.slopes, device=distance.device)[h] * distance.abs()


def _slopes(heads: int) -> tuple[float, ...]:
    """Return one slope per head.

    >>> _slopes(8)
    (0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625)
    """
    power = 1 << heads.bit_length() - 1  # the largest power of two that is at most `heads`
    regular = tuple(2.0 ** (-8 * i / power) for i in range(1, power + 1))
    between = tuple(2.0 ** (-8 * i / (2 * power)) for i in range(1, 2 * power + 1, 2))
    return (regular + between)[:heads]
