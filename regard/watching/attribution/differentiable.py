"""Weights and entropy of a recorded call through which gradients flow, for losses that contain them.

The entropy H = lse − E[s] of a row takes one fused call more than the row itself, since E[s] = scale · q · Σ_j w_j k_j:
attention over the keys as values gives log-sum-exp and mixed keys, with memory linear in length. Where something is
added to the scores or changes them, the entropy is computed from rows of scores, which backward computes again.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.attention.attend_function import attend_with_lse
from regard.attention.listeners import listeners_muted
from regard.watching.attribution.live_calls import require_live
from regard.watching.call_inputs import CallInputs, PerQuery
from regard.watching.weights.weight_edits import Rows, edited_rows

WEIGHTS_AT_ONCE = 1 << 22


def live_weights(call: CallInputs, b: Tensor, h: Tensor, i: Tensor) -> Float[Tensor, "batch heads queries keys"]:
    """Return the weights of batch items b, heads h and queries i, with gradients."""
    call.check_unchanged()
    live = require_live(call, "weights(grad=True)")
    if live.eager_weights is not None:
        return live.eager_weights[b[:, None, None], h[:, None], i]
    with listeners_muted, torch._C.DisableTorchFunction():
        return edited_rows(live, b, h, i)


def live_entropy(call: CallInputs) -> PerQuery:
    """Return the entropy of each row of weights, with gradients; 0 for an empty row."""
    call.check_unchanged()
    live = require_live(call, "entropy(grad=True)")
    with listeners_muted, torch._C.DisableTorchFunction():
        changed = live.bias is not None or live.bias_rule is not None or live.softcap or live.score_function
        if live.eager_weights is not None:
            return _entropy_of(live.eager_weights)
        if changed or live.sinks is not None or live.edits:
            return _from_rows(live)
        mask: Any = live.mask
        if live.boolean_mask is not None:
            mask = live.boolean_mask if mask is None else mask & live.boolean_mask
        mixed_keys, lse = attend_with_lse(live.q, live.k, live.k, mask, scale=live.factor)
        expected_score = live.factor * (live.q * mixed_keys).sum(-1)
        # Where nothing is visible, the log-sum-exp is −inf; its gradient must not be −inf · 0.
        empty = lse.detach().isneginf()
        return (lse.masked_fill(empty, 0.0) - expected_score).masked_fill(empty, 0.0)


def _from_rows(call: CallInputs) -> PerQuery:
    b, h, i = Rows().indices(call)
    step = max(1, WEIGHTS_AT_ONCE // max(1, call.shape[0] * call.shape[1] * call.shape[3]))

    def entropy(rows: Tensor) -> Tensor:
        with listeners_muted, torch._C.DisableTorchFunction():
            return _entropy_of(edited_rows(call, b, h, rows))

    return torch.cat([checkpoint(entropy, rows, use_reentrant=False) for rows in i.split(step)], -1)


def _entropy_of(weights: Float[Tensor, "*rows keys"]) -> Float[Tensor, "*rows"]:
    """Return −Σ w log w, whose gradient is finite where w is 0."""
    positive = weights > 0
    logs = torch.where(positive, weights, 1.0).log()
    return -(weights * logs).sum(-1)
