"""Importance of heads: the gradient of a loss with respect to a gate on the output of each head (Michel et al., 2019).

A gate ξ_h, which is 1, multiplies the output of head h. Since the output is ξ_h o_h,

    ∂L/∂ξ_h = Σ_i (∂L/∂o_hi) · o_hi

To first order, removing the head changes the loss by −∂L/∂ξ_h.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.watching.attribution.output_gradients import visit_gradients
from regard.watching.call import Call


def head_importance(calls: Sequence[Call], loss: Tensor, *, per_item: bool = False) -> Float[Tensor, "calls *_ heads"]:
    """Return ∂L/∂ξ, (calls, H), or (calls, B, H) with `per_item`; NaN where a call has fewer heads or batch items."""
    batch, heads = (max(call.shape[axis] for call in calls) for axis in (0, 1))
    values = torch.full((len(calls), batch, heads), math.nan, device=calls[0].like.device)
    for number, call in enumerate(calls):
        values[number, : call.shape[0], : call.shape[1]] = 0.0  # of calls that the loss does not depend on

    def visit(number: int, gradient: Tensor) -> None:
        call = calls[number]
        x = call.output if call.eager_weights is None else call.eager_weights
        for b in range(call.shape[0]):  # an item at a time, which bounds the memory
            gates = (x[b].float() * gradient[b].float()).sum((-2, -1))
            values[number, b, : call.shape[1]] = gates.to(values.device)

    visit_gradients(calls, loss, "importance", visit)
    return values if per_item else torch.where(values.isnan().all(1), math.nan, values.nansum(1))
