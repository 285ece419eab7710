"""Learned positions, added to the vectors: one parameter vector per position, as in BERT and GPT-2."""

import torch
from torch import Tensor, nn
from torch.types import Device

from regard.attention.integer_arguments import check_integer
from regard.attention.kernels.private_torch_operators import in_graph
from regard.attention.positions.position_arguments import Positions, check_positions, check_vectors


class Learned(nn.Module):
    """Adds one learned vector per position to x (..., L, D), for at most `max_length` positions.

    max_length  number of positions
    d_model     D
    std         standard deviation of the normal distribution of the initial values
    device, dtype   of the parameter, as in every layer of torch

    `positions` is the position of the first vector, or the position of each as a tensor (L,) or (..., L).

    >>> positions = Learned(8, 4)
    >>> positions(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    >>> positions(torch.zeros(2, 9, 4))
    Traceback (most recent call last):
    ValueError: Learned has 8 positions, 0 … 7, but position 8 is needed (9 vectors from position 0 on);
    build it with a larger max_length, or use Sinusoidal or Rotary, which have no limit
    """

    def __init__(
        self, max_length: int, d_model: int, *, std: float = 0.02, device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.max_length = check_integer("Learned(max_length)", max_length, 1, "it counts positions")
        self.d_model = check_integer("Learned(d_model)", d_model, 1, "it is the width of a vector")
        self.std = std
        self.weight = nn.Parameter(torch.empty(self.max_length, self.d_model, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the vectors from a normal distribution with standard deviation `std`."""
        nn.init.normal_(self.weight, std=self.std)

    def forward(self, x: Tensor, positions: Positions = 0) -> Tensor:
        check_vectors("Learned", x, self.d_model)
        check_positions(positions, x.shape[:-1])
        if isinstance(positions, Tensor):
            if not in_graph(positions) and positions.numel():
                check_integer("positions", int(positions.min()), 0, "positions count from 0")
                self._check_last(int(positions.max()), f"the largest of {tuple(positions.shape)} positions")
            return x + self.weight[positions]
        stop = positions + x.shape[-2]
        self._check_last(stop - 1, f"{x.shape[-2]} vectors from position {positions} on")
        return x + self.weight[positions:stop]

    def _check_last(self, position: int, source: str) -> None:
        if position >= self.max_length:
            raise ValueError(
                f"Learned has {self.max_length} positions, 0 … {self.max_length - 1}, but position {position} is "
                f"needed ({source}); build it with a larger max_length, or use Sinusoidal or Rotary, which "
                "have no limit"
            )

    def extra_repr(self) -> str:
        return f"max_length={self.max_length}, d_model={self.d_model}"
