"""Statistics computed by fused attention, on any device and in any precision.

With w = softmax(s) and s_ij = scale · q_i·k_j, the statistics are averages under w, and attention computes
averages under w. One call with the values

    v_j = [k_j, p_j, p_j², 1 if j = 0]        p_j = (j − S/2) / S

and its log-sum-exp give, for each query i,

    entropy     H_i = lse_i − Σ_j w_ij s_ij            Σ_j w_ij s_ij = scale · q_i · Σ_j w_ij k_j
    position    E[j]            spread  √(E[j²] − E[j]²)        sink  w_i0

The weight that each key *receives* from all queries is a call with the roles of queries and keys exchanged:

    log Σ_i w_ij = logsumexp_i (scale · k_j·q_i − lse_i)
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention import Mask, attend_with_lse, masks
from regard.attention.masks.shifted_positions import shift_mask
from regard.watching.call_inputs import CallInputs, PerQuery
from regard.watching.statistics.row_statistics import Statistics, include_sinks


def statistics(call: CallInputs, sinks: tuple[int, ...] = (0,)) -> Statistics:
    """Return all statistics but `received`; `sink` is the weight on the keys in `sinks`."""
    q, k = call.q, call.k
    keys, width = k.shape[-2], k.shape[-1]
    position = torch.arange(keys, dtype=torch.float32, device=k.device) / keys - 0.5
    is_sink = torch.zeros(keys, device=k.device)
    is_sink[list(sinks)] = 1.0
    columns = torch.stack([position, position**2, is_sink], -1).to(k.dtype).expand(*k.shape[:-1], 3)
    values = torch.cat([k, columns], -1)
    means, lse = attend_with_lse(q, k, values, combined_mask(call), scale=call.factor)
    means = means.to(lse.dtype)
    expected_score = call.factor * (q * means[..., :width]).sum(-1)
    empty = lse.isneginf()
    mean, mean_square, sink = means[..., width], means[..., width + 1], means[..., width + 2]
    zero = torch.zeros((), dtype=lse.dtype, device=q.device)
    statistics = Statistics(
        entropy=torch.where(empty, zero, (lse - expected_score).clamp_min(0.0)),
        position=torch.where(empty, zero.double(), (mean.double() + 0.5) * keys),
        spread=torch.where(empty, zero, (mean_square - mean**2).clamp_min(0.0).sqrt() * keys),
        sink=sink,
        empty=empty,
        lse=lse,
    )
    return include_sinks(statistics, call.sinks)


def supports(call: CallInputs) -> bool:
    """Whether the scores are a product plus masks: a bias contributes to the entropy, and a softcap changes scores."""
    changes = (call.eager_weights, call.bias, call.bias_rule, call.score_function)
    return not call.softcap and all(x is None for x in changes)


def combined_mask(call: CallInputs) -> Mask | Tensor | None:
    """Return the mask of the call as one argument of `attend`."""
    if call.mask is None or call.boolean_mask is None:
        return call.mask if call.boolean_mask is None else call.boolean_mask
    return call.mask & masks.given(call.boolean_mask.expand(-1, -1, *call.shape[2:]))


def supports_received(call: CallInputs) -> bool:
    """Whether the call with exchanged roles has a mask that can be expressed: one that depends on distances only."""
    relative = call.mask is None or (call.mask.relative and call.mask.parseable)
    return supports(call) and call.boolean_mask is None and relative


def received(call: CallInputs, lse: PerQuery) -> Float[Tensor, "batch heads keys"]:
    """Return the weight that each key receives from all queries together, for every query head."""
    q, k = call.q, call.k
    # k·q − lse as a plain dot product: one more column, 1 for the keys and −lse for the queries.
    # The weights of an empty row underflow to 0.
    offset = (-lse).masked_fill(lse.isneginf(), -1e30).to(q.dtype)[..., None]
    fill = q.new_zeros(*q.shape[:-1], 7 - q.shape[-1] % 8)
    queries = torch.cat([q * call.factor, offset, fill], -1)
    keys = F.pad(torch.cat([k, torch.ones_like(k[..., :1])], -1), (0, fill.shape[-1]))
    keys = keys.repeat_interleave(q.shape[1] // k.shape[1], 1)
    mask = None
    if call.mask is not None:
        # With both sequences reversed, the distances are unchanged: the same mask holds, moved by S − L.
        queries, keys = queries.flip(-2), keys.flip(-2)
        mask = shift_mask(call.mask, queries=k.shape[-2] - q.shape[-2], keys=0)
    total = attend_with_lse(keys, queries, queries, mask, scale=1.0).lse.exp()
    return total if mask is None else total.flip(-1)
