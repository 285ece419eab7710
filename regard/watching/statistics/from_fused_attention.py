"""Statistics computed by fused attention, on any device and in any precision.

With w = softmax(s) and s_ij = scale · q_i·k_j + bias_ij, the statistics are averages under w, and attention computes
averages under w. One call with the values

    v_j = [k_j, p_j, p_j², 1 if j = 0]        p_j = (j − S/2) / S

and its log-sum-exp give, for each query i,

    entropy     H_i = lse_i − Σ_j w_ij s_ij            Σ_j w_ij s_ij = scale · q_i · Σ_j w_ij k_j + Σ_j w_ij bias_ij
    distance    E[i − j]        spread  √(E[j²] − E[j]²)        sink  w_i0

The weight that each key *receives* from all queries is a call with the roles of queries and keys exchanged:

    log Σ_i w_ij = logsumexp_i (scale · k_j·q_i − lse_i)
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend_with_lse
from regard.attention.masks.shifted_positions import shift_mask
from regard.watching.call_inputs import CallInputs, PerQuery
from regard.watching.statistics import from_weights
from regard.watching.statistics.row_statistics import Statistics


def statistics(call: CallInputs, sinks: tuple[int, ...] = (0,)) -> Statistics:
    """Return all statistics but `received`; `sink` is the weight on the keys in `sinks`."""
    q, k = call.q, call.k
    keys, width = k.shape[-2], k.shape[-1]
    position = torch.arange(keys, dtype=torch.float32, device=k.device) / keys - 0.5
    is_sink = torch.zeros(keys, device=k.device)
    is_sink[list(sinks)] = 1.0
    columns = torch.stack([position, position**2, is_sink], -1).to(k.dtype).expand(*k.shape[:-1], 3)
    means, lse = attend_with_lse(q, k, torch.cat([k, columns], -1), call.mask, bias=call.bias, scale=call.scale)
    means = means.to(lse.dtype)
    expected_score = call.scale * (q * means[..., :width]).sum(-1)
    if call.bias is not None:
        expected_score = expected_score + from_weights.expected_bias(call, lse)
    empty = lse.isneginf()
    mean, mean_square, sink = means[..., width], means[..., width + 1], means[..., width + 2]
    own_position = torch.arange(keys - q.shape[-2], keys, dtype=torch.float64, device=q.device)
    zero = torch.zeros((), dtype=lse.dtype, device=q.device)
    return Statistics(
        entropy=torch.where(empty, zero, (lse - expected_score).clamp_min(0.0)),
        distance=torch.where(empty, zero.double(), own_position - (mean.double() + 0.5) * keys),
        spread=torch.where(empty, zero, (mean_square - mean**2).clamp_min(0.0).sqrt() * keys),
        sink=sink,
        empty=empty,
        lse=lse,
    )


def received(call: CallInputs, lse: PerQuery) -> Float[Tensor, "batch heads keys"]:
    """Return the weight that each key receives from all queries together, for every query head."""
    if call.bias is not None or (call.mask is not None and not (call.mask.relative and call.mask.parseable)):
        return from_weights.received(call)
    q, k = call.q, call.k
    # k·q − lse as a plain dot product: one more column, 1 for the keys and −lse for the queries.
    # The weights of an empty row underflow to 0.
    offset = (-lse).masked_fill(lse.isneginf(), -1e30).to(q.dtype)[..., None]
    fill = q.new_zeros(*q.shape[:-1], 7 - q.shape[-1] % 8)
    queries = torch.cat([q * call.scale, offset, fill], -1)
    keys = F.pad(torch.cat([k, torch.ones_like(k[..., :1])], -1), (0, fill.shape[-1]))
    keys = keys.repeat_interleave(q.shape[1] // k.shape[1], 1)
    mask = None
    if call.mask is not None:
        # With both sequences reversed, the distances are unchanged: the same mask holds, moved by S − L.
        queries, keys = queries.flip(-2), keys.flip(-2)
        mask = shift_mask(call.mask, queries=k.shape[-2] - q.shape[-2], keys=0)
    total = attend_with_lse(keys, queries, queries, mask, scale=1.0).lse.exp()
    return total if mask is None else total.flip(-1)
