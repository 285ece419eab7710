"""Under torch.func: a batch dimension that vmap adds is one more leading dimension, which attention has anyway."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def eager(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """`function.apply` for outside torch.func: without the inspection of its signature at every call (100 µs)."""
    apply: Callable[..., Any] = super(torch.autograd.Function, function).apply  # type: ignore[misc]  # it is in the C base
    return apply


def leading(
    info: Any, in_dims: tuple[int | None, ...], tensors: tuple[Tensor, ...], table: Tensor | None
) -> tuple[tuple[Tensor, ...], Tensor | None]:
    """The tensors with vmap's dimension in front, shared by those that had none; the table made to broadcast to it."""
    dims = in_dims[: len(tensors)]
    rank = max(x.dim() - (dim is not None) for x, dim in zip(tensors, dims, strict=True))
    front = tuple(
        x.unsqueeze(0).expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
        for x, dim in zip(tensors, dims, strict=True)
    )
    at = in_dims[len(tensors)] if len(in_dims) > len(tensors) else None
    if table is not None and at is not None:
        table = table.movedim(at, 0)
        table = table.reshape(table.shape[0], *(1,) * (rank + 1 - table.dim()), *table.shape[1:])
    return front, table
