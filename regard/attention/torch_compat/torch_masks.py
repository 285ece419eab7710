"""Conversion of the two masks of `nn.MultiheadAttention`, in which True means *ignore*, to those of regard.

    attn_mask           (L, S), or (B, H, L, S) as reshaped from torch's (B·H, L, S)
    key_padding_mask    (B, S)

Each is boolean, or float and added to the scores.
"""

from functools import reduce
from operator import and_

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.kernels.private_torch_operators import in_dispatch_mode, in_func_transform, in_jit_trace
from regard.attention.masks import Mask, causal, given, padding


def combine_masks(
    key_padding_mask: Tensor | None, attn_mask: Tensor | None
) -> tuple[Bool[Tensor, "..."] | None, Float[Tensor, "..."] | None]:
    """Return the visible pairs and the sum of the float masks, each broadcastable to (B, H, L, S).

    >>> combine_masks(torch.tensor([[False, True]]), torch.zeros(2, 2))
    (tensor([[[[ True, False]]]]), tensor([[0., 0.],
            [0., 0.]]))
    """
    visible: Tensor | None = None
    bias: Tensor | None = None
    for mask in (attn_mask, None if key_padding_mask is None else key_padding_mask[:, None, None]):
        if mask is None:
            continue
        if mask.dtype == torch.bool:
            visible = ~mask if visible is None else visible & ~mask
        else:
            bias = mask if bias is None else bias + mask
    return visible, bias


def convert_torch_masks(
    q: Float[Tensor, "b h l d"],
    k: Float[Tensor, "b h s d"],
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    is_causal: bool,
) -> tuple[Mask | Tensor | None, Tensor | None]:
    """Return mask and bias for `attend`; if possible the mask is a rule such as `causal`, which skips hidden pairs."""
    rules: list[Mask] = []
    queries, keys = q.shape[-2], k.shape[-2]
    if attn_mask is not None and queries == keys:
        hinted = is_causal and key_padding_mask is None  # then torch ignores attn_mask too
        if hinted or (values_readable(q) and keys >= 256 and _is_causal(attn_mask)):
            rules, attn_mask = [causal()], None
    if key_padding_mask is not None and values_readable(q) and keys >= 128 and queries >= 32:
        real = _real_keys(key_padding_mask)
        if real is not None and (rules or _is_contiguous(real)):
            rules, key_padding_mask = [*rules, padding(real)], None
    visible, bias = combine_masks(key_padding_mask, attn_mask)
    if not rules:
        return visible, bias
    return reduce(and_, rules if visible is None else [*rules, given(visible)]), bias


def values_readable(x: Tensor) -> bool:
    """Return whether reading the values costs little: they are on the CPU, and no graph is being recorded."""
    return (
        x.device.type == "cpu"
        and type(x) is Tensor
        and not torch.compiler.is_compiling()
        and not in_jit_trace()
        and not in_func_transform()
        and not in_dispatch_mode()
    )


def _is_causal(mask: Tensor) -> bool:
    """Return whether `mask` is the causal mask (L, L); most other masks are rejected after reading three entries."""
    hides = True if mask.dtype == torch.bool else -torch.inf
    if mask.dim() != 2 or mask.requires_grad or mask[0, -1] != hides or mask[-1, 0] != 0 or mask[-1, -1] != 0:
        return False
    return torch.equal(mask, torch.full_like(mask, hides).triu_(1))


def _real_keys(key_padding_mask: Tensor) -> Bool[Tensor, "b s"] | None:
    """Return True for keys that are not padding; None if a float mask has other values than 0 and −inf."""
    if key_padding_mask.dtype == torch.bool:
        return ~key_padding_mask
    real = key_padding_mask == 0
    return real if bool((real | key_padding_mask.isneginf()).all()) else None


def _is_contiguous(real: Bool[Tensor, "b s"]) -> bool:
    """Return whether the real keys of each item are contiguous, and so few that one call per item is faster."""
    return 4 * int(real.sum()) <= 3 * real.numel() and int(real.diff(dim=1).sum()) <= 2 * len(real)
