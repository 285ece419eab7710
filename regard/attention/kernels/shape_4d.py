"""Tensors of any rank as (B, H, L, d), the layout of the CPU kernels."""

import torch
import torch.nn.functional as F
from torch import Tensor


def to_4d(x: Tensor) -> Tensor:
    """Return (..., H, L, d) as (B, H, L, d), with B the product of the leading dimensions."""
    if x.dim() == 4:
        return x
    return x.reshape(-1, *x.shape[-3:]) if x.dim() > 4 else x[(None,) * (4 - x.dim())]


def table_to_4d(table: Tensor, lead: torch.Size) -> Tensor:
    """Return a table that broadcasts to (*lead, H, L, S) as one that broadcasts to (B, H, L, S), B = prod(lead)."""
    if len(lead) <= 1 or table.dim() <= 3:
        return table[(None,) * (4 - table.dim())]
    return table.expand(*lead, *table.shape[-3:]).reshape(-1, *table.shape[-3:])


def equal_widths(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pad q, k and v with zeros to one width if d_k ≠ d_v, because the kernel requires d_k = d_v.

    The zeros change no score, and the caller cuts the additional columns off the output. Multiples of 8 are fastest.
    """
    if q.shape[-1] == v.shape[-1]:
        return q, k, v
    width = -(-max(q.shape[-1], v.shape[-1]) // 8) * 8
    q, k, v = (x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1])) for x in (q, k, v))
    return q, k, v
