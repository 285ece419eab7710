"""Validation of the arguments of `attend`."""

import math
from typing import Any

import torch
from torch import Tensor

from regard.attention.reference.shape_checks import check_broadcast, check_shapes


def check_inputs(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise unless q, k and v are floating point tensors of one dtype and device, with shapes that match."""
    for name, x in {"q": q, "k": k, "v": v}.items():
        if not isinstance(x, Tensor):
            raise TypeError(
                f"{name} must be a tensor, got {type(x).__name__}; for NumPy use regard.attention.reference"
            )
        if not x.dtype.is_floating_point:
            raise TypeError(
                f"{name} must be floating point, got {x.dtype}; embed token ids first, "
                f"and convert whole numbers with {name}.float()"
            )
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"q, k and v must have one dtype, got {q.dtype}, {k.dtype}, {v.dtype}; use .to(q.dtype)")
    if not q.device == k.device == v.device:
        raise ValueError(f"q, k and v must be on one device, got {q.device}, {k.device}, {v.device}; use .to(q.device)")
    check_shapes(q.shape, k.shape, v.shape)


def check_mask(mask: Tensor, q: Tensor, k: Tensor) -> None:
    """Raise unless the mask is boolean and broadcasts to (..., H, L, S)."""
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask must be a mask of regard.masks or a boolean tensor, got {type(mask).__name__}")
    if mask.dtype != torch.bool:
        raise TypeError(
            f"a mask must be boolean with True = visible, got {mask.dtype}; write mask != 0 for a 0/1 mask, "
            "and pass a mask of added numbers as bias="
        )
    try:
        check_broadcast("mask", mask.shape, (*q.shape[:-1], k.shape[-2]))
    except ValueError as error:
        if mask.dim() == 2 and mask.shape[1] == k.shape[-2]:
            raise ValueError(f"{error}; for one value per batch item and key use regard.masks.padding(mask)") from None
        raise


def check_bias(bias: Tensor, q: Tensor, k: Tensor) -> None:
    """Raise unless the bias is floating point and broadcasts to (..., H, L, S)."""
    if not bias.dtype.is_floating_point:
        raise TypeError(f"bias is added to scores and must be floating point, got {bias.dtype}; pass booleans as mask=")
    check_broadcast("bias", bias.shape, (*q.shape[:-1], k.shape[-2]))


def check_dropout(dropout: float) -> None:
    """Raise unless 0 ≤ dropout < 1."""
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is the share of weights to drop, 0 ≤ dropout < 1, got {dropout}")


def check_scale(scale: Any, dtype: torch.dtype) -> float:
    """Return the scale as a float; raise unless it is finite in the dtype in which scores of `dtype` are computed."""
    if isinstance(scale, (str, complex)) or (isinstance(scale, Tensor) and scale.numel() != 1):
        raise TypeError(f"scale must be one real number, got {scale!r}; 1/√d_k is the default")
    try:
        value = float(scale)
    except OverflowError:  # an int that is too large
        value = math.inf
    if not abs(value) <= torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).max:
        raise ValueError(f"scale must be a finite number for scores of {dtype}, got {value}; 1/√d_k is the default")
    return value
