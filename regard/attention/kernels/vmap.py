"""Support of autograd functions for torch.func: vmap's batch dimension becomes one more leading dimension."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def apply_without_transforms(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """Return `function.apply` for calls outside torch.func, without its inspection of the signature (100 µs)."""
    apply: Callable[..., Any] = super(torch.autograd.Function, function).apply  # type: ignore[misc]  # in the C base
    return apply


def move_batch_first(
    info: Any, in_dims: tuple[int | None, ...], tensors: tuple[Tensor, ...], table: Tensor | None
) -> tuple[tuple[Tensor, ...], Tensor | None]:
    """Return tensors and table with vmap's dimension first; tensors without that dimension are expanded."""
    dims = in_dims[: len(tensors)]
    rank = max(x.dim() - (dim is not None) for x, dim in zip(tensors, dims, strict=True))
    moved = tuple(
        x.unsqueeze(0).expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
        for x, dim in zip(tensors, dims, strict=True)
    )
    table_dim = in_dims[len(tensors)] if len(in_dims) > len(tensors) else None
    if table is not None and table_dim is not None:
        table = table.movedim(table_dim, 0)
        table = table.reshape(table.shape[0], *(1,) * (rank + 1 - table.dim()), *table.shape[1:])
    return moved, table
