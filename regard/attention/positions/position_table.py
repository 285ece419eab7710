"""Cached table with one row per position, shared by the sinusoidal and the rotary encoding."""

from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.types import Device

from regard.attention.device_precision import widest_float
from regard.attention.kernels.private_torch_operators import in_func_transform, in_graph
from regard.attention.positions.position_arguments import Positions

MAX_CACHED_ROWS = 1 << 16  # later positions are not cached: a table up to one distant token would fill the memory


def angles(
    positions: Shaped[Tensor, "*batch n"], count: int, width: int, base: float
) -> Float[Tensor, "*batch n count"]:
    """Return the angles p / base^(2i/width), i < count, in float64 if the device has it.

    In float32 they are off by 0.004 at position 100,000.
    """
    dtype = widest_float(positions.device)
    rates = base ** (torch.arange(count, dtype=dtype, device=positions.device) * (-2 / width))
    return positions.to(dtype)[..., None] * rates


class PositionTable(nn.Module):
    """Base of modules with a table that has one row per position, computed when needed and cached.

    The table is not a buffer: `.half()` would round it, `.to_empty()` would lose it, and a checkpoint need not contain
    it. It is on the device of the input, and in float32 or wider; `device` and `dtype`, which every layer accepts,
    therefore have no effect.
    """

    def __init__(self, device: Device = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self._table: Tensor | None = None

    def reset_parameters(self) -> None:
        """Remove the cached table; there are no parameters."""
        self._table = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle or copy, without the cached table."""
        return {**self.__dict__, "_table": None}

    @abstractmethod
    def _rows(self, positions: Shaped[Tensor, "*batch n"]) -> Float[Tensor, "*batch n width"]:
        """Return the rows at these positions, in float64."""

    def _rows_at(self, positions: Positions, length: int, like: Tensor) -> Float[Tensor, "*batch length width"]:
        """Return the rows for `length` vectors, on the device of `like`."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        if isinstance(positions, Tensor):
            return self._rows(positions.to(like.device)).to(dtype)
        stop = positions + length
        # A device without float64 gets rows that are computed on the CPU.
        source = like.device if widest_float(like.device) == torch.float64 else torch.device("cpu")
        # A table computed inside a transform or for a tensor subclass (fake, traced) must not be cached.
        uncached = in_graph(like) or in_func_transform() or type(like) is not Tensor
        if stop > MAX_CACHED_ROWS or uncached:
            return self._rows(torch.arange(positions, stop, device=source)).to(like.device, dtype)
        table = self._table
        if table is None or table.device != like.device or table.dtype != dtype or len(table) < stop:
            # A table created in inference mode could not be used for training later.
            with torch.inference_mode(False):
                capacity = 1 << max(stop - 1, 63).bit_length()
                table = self._table = self._rows(torch.arange(capacity, device=source)).to(like.device, dtype)
        return table[positions:stop]
