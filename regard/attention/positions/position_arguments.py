"""Validation of the arguments of position encodings: the vectors, and the positions they are at."""

import torch
from jaxtyping import Shaped
from torch import Tensor

from regard.attention.integer_arguments import check_integer

Positions = int | Shaped[Tensor, "*batch n"]  # that of the first vector as an int, or that of each as a tensor


def check_vectors(module: str, x: Tensor, d_model: int) -> None:
    """Raise an error that names the module unless x is floating point (..., L, d_model)."""
    if x.dim() < 2 or x.shape[-1] != d_model:
        raise ValueError(f"{module} takes x of shape (..., L, {d_model}), got {tuple(x.shape)}")
    if not x.dtype.is_floating_point:
        raise TypeError(f"{module} takes floating point numbers, got {x.dtype}; embed token ids first")


def check_positions(positions: Positions, rows: tuple[int, ...]) -> None:
    """Raise unless `positions` is one position, or has one for each vector of a tensor (*rows, width)."""
    if not isinstance(positions, Tensor):
        check_integer("positions", positions, 0, "positions count from 0")
        return
    if positions.dtype == torch.bool or positions.dtype.is_complex:
        raise TypeError(f"positions must be numbers, got {positions.dtype}; booleans are for masks.padding")
    if positions.dim() == 0 or tuple(positions.shape) not in (tuple(rows[-1:]), tuple(rows)):
        shapes = " or ".join(str(shape) for shape in dict.fromkeys((tuple(rows[-1:]), tuple(rows))))
        raise ValueError(
            f"positions must be one position, or a tensor of shape {shapes} with a position per vector; "
            f"got shape {tuple(positions.shape)}"
        )
