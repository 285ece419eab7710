"""Sinusoidal positions, added to the vectors.

Attention does not depend on the order of its keys. This encoding adds to the vector at position p a vector that
encodes p:

    P[p, 2i] = sin(p / base^(2i/D))        P[p, 2i+1] = cos(p / base^(2i/D))        base = 10000

An odd width D ends with a sine.
"""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.types import Device

from regard.attention.integer_arguments import check_integer
from regard.attention.positions.position_arguments import Positions, check_positions, check_vectors
from regard.attention.positions.position_table import PositionTable, angles


def sinusoidal(
    length: int,
    d_model: int,
    *,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "length d_model"]:
    """Return the table P of sines and cosines, one row per position; computed in float64 and rounded once.

    >>> sinusoidal(2, 3)
    tensor([[0.0000, 1.0000, 0.0000],
            [0.8415, 0.5403, 0.0022]])
    """
    length = check_integer("sinusoidal(length)", length, 0, "it counts positions")
    d_model = check_integer("sinusoidal(d_model)", d_model, 1, "it is the width of a vector")
    return _sines_and_cosines(torch.arange(length, device=device), d_model, base).to(dtype)


def _sines_and_cosines(
    positions: Shaped[Tensor, "*batch n"], d_model: int, base: float
) -> Float[Tensor, "*batch n d_model"]:
    x = angles(positions, -(-d_model // 2), d_model, base)  # (..., L, ⌈D/2⌉)
    return torch.stack((x.sin(), x.cos()), -1).flatten(-2)[..., :d_model]


class Sinusoidal(PositionTable):
    """Adds the table of sines and cosines to x (..., L, D); works for any length and has no parameters.

    d_model     D; may be odd
    base        10000 as published; larger for longer sequences
    device, dtype   accepted as in every layer; without effect, because the table follows the input

    `positions` is the position of the first vector, or the position of each as a tensor (L,) or (..., L).

    >>> positions = Sinusoidal(4)
    >>> positions(torch.zeros(2, 4))
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    >>> bool((positions(torch.zeros(1, 4), positions=1) == positions(torch.zeros(2, 4))[1]).all())
    True
    """

    def __init__(
        self, d_model: int, *, base: float = 10000.0, device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__(device, dtype)
        self.d_model = check_integer("Sinusoidal(d_model)", d_model, 1, "it is the width of a vector")
        self.base = float(base)

    def forward(self, x: Tensor, positions: Positions = 0) -> Tensor:
        check_vectors("Sinusoidal", x, self.d_model)
        check_positions(positions, x.shape[:-1])
        return (x + self._rows_at(positions, x.shape[-2], x)).to(x.dtype)

    def _rows(self, positions: Shaped[Tensor, "*batch n"]) -> Float[Tensor, "*batch n width"]:
        return _sines_and_cosines(positions, self.d_model, self.base)

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, base={self.base:g}"
