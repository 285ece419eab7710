"""The position of each query among the keys: needed for distances, neighbours and checks of causality.

Queries over as many keys are at the positions 0, 1, 2, …. Otherwise the position is read from what the call shows:

| evidence | position of query i |
|---|---|
| a rule of `regard.masks` that depends on distances, or SDPA's `is_causal` | the one that the rule uses |
| a mask tensor, or eager weights, whose last visible key moves by one from query to query | that last key |
| a cache, and one query | the last visible key |
| a cache, and no mask | S − L + i: the queries are the newest tokens |

Without evidence the positions are unknown (None).
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention import Mask
from regard.attention.masks.mask import And
from regard.attention.masks.shifted_positions import ShiftedMask
from regard.watching.call_inputs import CallInputs


def find_positions(call: CallInputs) -> Int[Tensor, "*batch queries"] | None:
    """Return the index of each query's own key, (L,) or (B, L); None if it is not known."""
    _, _, length, size = call.shape
    if call.cross or call.folded or length == 0:
        return None
    index = torch.arange(length, device=call.like.device)
    if length == size:
        return index
    shift = _shift_of_rule(call.mask)
    if shift is not None:
        return index + (size - length + shift)
    visible = _visible_keys(call)
    if visible is not None:
        return _last_visible_keys(visible, call.cached)
    return index + (size - length) if call.cached else None


def _shift_of_rule(mask: Mask | None) -> int | None:
    """Return by how much a rule that depends on distances shifts the queries; None for other masks."""
    if isinstance(mask, And):
        shifts = [shift for part in mask.parts if (shift := _shift_of_rule(part)) is not None]
        return shifts[0] if shifts else None
    if isinstance(mask, ShiftedMask):
        return mask.queries - mask.keys if mask.mask.relative else None
    return 0 if mask is not None and mask.relative else None


def _visible_keys(call: CallInputs) -> Bool[Tensor, "#batch queries keys"] | None:
    """Return which keys each query sees in any head, as far as a mask tensor or the weights show it."""
    tables = []
    if call.boolean_mask is not None:
        tables.append(call.boolean_mask)
    if call.bias is not None:
        smallest = torch.finfo(call.bias.dtype).min / 2  # models write the smallest number for −inf
        tables.append(call.bias > smallest)
    if call.eager_weights is not None:
        tables.append(call.eager_weights > 0)
    if not tables:
        return None
    visible = [table.any(1).expand(-1, *call.shape[2:]) for table in tables]
    return visible[0] if len(visible) == 1 else visible[0] & visible[1]


def _last_visible_keys(
    visible: Bool[Tensor, "batch queries keys"], cached: bool
) -> Int[Tensor, "*batch queries"] | None:
    """Return the positions of queries whose last visible key moves by one from query to query; None if it does not."""
    length, size = visible.shape[1:]
    index = torch.arange(length, device=visible.device)
    if cached and bool(visible.all()):
        return index + (size - length)
    keys = torch.arange(1, size + 1, device=visible.device)
    last = (visible * keys).amax(-1) - 1  # −1: sees nothing
    informative = (last >= 0) & ~visible.all(-1)  # rows of padding are empty, or see everything
    informative[:, -1] |= last[:, -1] >= 0
    shift = (last - index).masked_fill(~informative, -size - length)
    shift = shift.amax(-1, keepdim=True)
    agree = (last - index == shift) | ~informative
    moves = informative.sum(-1).min() > 1 or (cached and length == 1)
    if not moves or not bool(agree.all()):
        return None
    positions = shift + index
    return positions[0] if bool((positions == positions[:1]).all()) else positions
