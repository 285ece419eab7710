"""torch's two masks in our words: where a boolean says True they mean *ignore*, and we mean visible.

    attn_mask           (L, S), or (B, H, L, S) as reshaped from torch's (B·H, L, S)
    key_padding_mask    (B, S)

Each is boolean, or float and added to the scores.
"""

from functools import reduce
from operator import and_

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.kernels.torch_operators import in_dispatch_mode, in_func_transform, in_jit_trace
from regard.attention.masks import Mask, causal, given, padding


def tables(
    key_padding_mask: Tensor | None, attn_mask: Tensor | None
) -> tuple[Bool[Tensor, "..."] | None, Float[Tensor, "..."] | None]:
    """What is visible and what is added, each to broadcast to (B, H, L, S).

    >>> tables(torch.tensor([[False, True]]), torch.zeros(2, 2))
    (tensor([[[[ True, False]]]]), tensor([[0., 0.],
            [0., 0.]]))
    """
    seen: Tensor | None = None
    bias: Tensor | None = None
    for mask in (attn_mask, None if key_padding_mask is None else key_padding_mask[:, None, None]):
        if mask is None:
            continue
        if mask.dtype == torch.bool:
            seen = ~mask if seen is None else seen & ~mask
        else:
            bias = mask if bias is None else bias + mask
    return seen, bias


def convert_torch_masks(
    q: Float[Tensor, "b h l d"],
    k: Float[Tensor, "b h s d"],
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    is_causal: bool,
) -> tuple[Mask | Tensor | None, Tensor | None]:
    """The same with rules where they pay, so that nothing is computed for the future and for padding."""
    found: list[Mask] = []
    queries, keys = q.shape[-2], k.shape[-2]
    if attn_mask is not None and queries == keys:
        hinted = is_causal and key_padding_mask is None  # then torch does not look at attn_mask, either
        if hinted or (readable(q) and keys >= 256 and _is_causal(attn_mask)):
            found, attn_mask = [causal()], None
    if key_padding_mask is not None and readable(q) and keys >= 128 and queries >= 32:
        real = _real(key_padding_mask)
        if real is not None and (found or _in_one_piece(real)):
            found, key_padding_mask = [*found, padding(real)], None
    seen, bias = tables(key_padding_mask, attn_mask)
    if not found:
        return seen, bias
    return reduce(and_, found if seen is None else [*found, given(seen)]), bias


def readable(x: Tensor) -> bool:
    """Whether numbers can be looked at here and now: not on another device, not while a graph is recorded."""
    return (
        x.device.type == "cpu"
        and type(x) is Tensor
        and not torch.compiler.is_compiling()
        and not in_jit_trace()
        and not in_func_transform()
        and not in_dispatch_mode()
    )


def _is_causal(mask: Tensor) -> bool:
    """Whether it is the plain causal mask (L, L); three numbers rule out most others before all are read."""
    hides = True if mask.dtype == torch.bool else -torch.inf
    if mask.dim() != 2 or mask.requires_grad or mask[0, -1] != hides or mask[-1, 0] != 0 or mask[-1, -1] != 0:
        return False
    return torch.equal(mask, torch.full_like(mask, hides).triu_(1))


def _real(key_padding_mask: Tensor) -> Bool[Tensor, "b s"] | None:
    """The keys that are real, if the mask says no more than that."""
    if key_padding_mask.dtype == torch.bool:
        return ~key_padding_mask
    real = key_padding_mask == 0
    return real if bool((real | key_padding_mask.isneginf()).all()) else None


def _in_one_piece(real: Bool[Tensor, "b s"]) -> bool:
    """Whether the real keys of an item stand together, and are so few that a call for each item pays."""
    return 4 * int(real.sum()) <= 3 * real.numel() and int(real.diff(dim=1).sum()) <= 2 * len(real)
