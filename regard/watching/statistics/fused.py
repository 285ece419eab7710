"""Statistics of attention for every head and query, with memory linear in length.

On the CPU in single precision they come from compiled loops over blocks of scores (`rows`, `kernels`). Elsewhere from
fused attention itself: with w = softmax(s), s_ij = scale · q_i·k_j + added_ij, all of these are averages under w, and
an average under w is what attention computes. One call with the values

    v_j = [k_j, p_j, p_j², 1 if j is in the chosen set]        p_j = (j − S/2) / S

and its log-sum-exp give, for every query i,

    entropy     H_i = lse_i − Σ_j w_ij s_ij            Σ_j w_ij s_ij = scale · q_i · Σ_j w_ij k_j + Σ_j w_ij added_ij
    distance    E[place_i − j]        spread  √(E[j²] − E[j]²)        mass  Σ_{j in set} w_ij

What each key *receives* from all queries is the same thing with the roles turned round:

    log Σ_i w_ij = logsumexp_i (scale · k_j·q_i − lse_i)

one fused call of the keys over the queries. The largest weights of a row are found a block of rows at a time.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import attend_with_lse
from regard.attention.masks.shifted import shift_mask
from regard.watching.statistics import row_blocks as rows

if TYPE_CHECKING:
    from regard.watching.call import Call

Rows = Float[Tensor, "b h l"]


@dataclass(frozen=True)
class Statistics:
    """Of every head and query of a call, each (B, H, L); rows that see nothing have 0 in all but `empty`."""

    entropy: Rows  # nats
    distance: Rows  # places from the query back to what it attends to; negative: ahead. float64, for long rows
    spread: Rows  # standard deviation of the attended place
    sink: Rows  # weight on the chosen keys, the first unless told
    empty: Tensor  # whether the row sees nothing
    lse: Rows  # log-sum-exp of the scores
    received: Float[Tensor, "b h s"] | None = None  # what each key gets from all queries, where it came with the rest


def statistics(call: "Call", on: tuple[int, ...] = (0,)) -> Statistics:
    """Entropy, distance, spread and mass on some keys."""
    return _by_rows(call, on) if rows.possible(call) else _by_attention(call, on)


def _by_rows(call: "Call", on: tuple[int, ...]) -> Statistics:
    found = rows.describe(call, on)
    places = torch.arange(call.shape[3] - call.shape[2], call.shape[3])
    empty = found.lse.isneginf()
    return Statistics(
        entropy=found.entropy.float(),
        distance=(places - found.mean).masked_fill_(empty, 0.0),
        spread=found.spread.float(),
        sink=found.mass.float(),
        empty=empty,
        lse=found.lse.float(),
        received=found.received.float(),
    )


def _by_attention(call: "Call", on: tuple[int, ...] = (0,)) -> Statistics:
    """The same from one fused call, on any device."""
    q, k = call.q, call.k
    keys, width = k.shape[-2], k.shape[-1]
    place = torch.arange(keys, dtype=torch.float32, device=k.device) / keys - 0.5
    chosen = torch.zeros(keys, device=k.device)
    chosen[list(on)] = 1.0
    extra = torch.stack([place, place**2, chosen], -1).to(k.dtype).expand(*k.shape[:-1], 3)
    mixed, lse = attend_with_lse(q, k, torch.cat([k, extra], -1), call.rule, bias=call.added, scale=call.scale)
    mixed = mixed.to(lse.dtype)
    score = call.scale * (q * mixed[..., :width]).sum(-1)
    if call.added is not None:
        score = score + expected_bias(call, lse)
    empty = lse.isneginf()
    mean, square, mass = mixed[..., width], mixed[..., width + 1], mixed[..., width + 2]
    places = torch.arange(keys - q.shape[-2], keys, dtype=lse.dtype, device=q.device)
    zero = torch.zeros((), dtype=lse.dtype, device=q.device)
    return Statistics(
        entropy=torch.where(empty, zero, (lse - score).clamp_min(0.0)),
        distance=torch.where(empty, zero.double(), places.double() - (mean.double() + 0.5) * keys),
        spread=torch.where(empty, zero, (square - mean**2).clamp_min(0.0).sqrt() * keys),
        sink=mass,
        empty=empty,
        lse=lse,
    )


def expected_bias(call: "Call", lse: Rows) -> Rows:
    """Σ_j w_ij added_ij where a finite bias takes part in the scores."""
    out = torch.zeros_like(lse)
    if call.added_is_mask or call.added is None:
        return out  # hidden places have weight 0, and 0 · −inf is meant to be 0
    added = call.added.expand(-1, -1, *call.shape[2:])
    for part in call.parts():
        b, h = part.batch if added.shape[0] > 1 else slice(None), part.heads if added.shape[1] > 1 else slice(None)
        here = added[b, h, part.rows, part.keys].to(lse.dtype)
        out[part.batch, part.heads, part.rows] += (part.weights * here.masked_fill(here.isneginf(), 0.0)).sum(-1)
    return out


def received(call: "Call") -> Float[Tensor, "b h s"]:
    """How much weight each key gets from all queries together, for every query head."""
    together = call.statistics.received
    return _received_by_attention(call) if together is None else together


def _received_by_attention(call: "Call") -> Float[Tensor, "b h s"]:
    q, k, lse = call.q, call.k, call.lse
    if call.added is not None or (call.rule is not None and not (call.rule.relative and call.rule.parseable)):
        return _received_by_parts(call)
    # exp(k·q − lse) as a plain dot product: one more column, 1 for the keys and −lse for the queries.
    # An empty row gives to nobody: its score underflows.
    offset = (-lse).masked_fill(lse.isneginf(), -1e30).to(q.dtype)[..., None]
    fill = q.new_zeros(*q.shape[:-1], 7 - q.shape[-1] % 8)
    queries = torch.cat([q * call.scale, offset, fill], -1)
    keys = F.pad(torch.cat([k, torch.ones_like(k[..., :1])], -1), (0, fill.shape[-1]))
    keys = keys.repeat_interleave(q.shape[1] // k.shape[1], 1)
    rule = None
    if call.rule is not None:
        # Back to front on both sides, a distance stays what it was: the rule holds again, moved by S − L.
        queries, keys = queries.flip(-2), keys.flip(-2)
        rule = shift_mask(call.rule, queries=k.shape[-2] - q.shape[-2], keys=0)
    total = attend_with_lse(keys, queries, queries, rule, scale=1.0).lse.exp()
    return total if rule is None else total.flip(-1)


def _received_by_parts(call: "Call") -> Float[Tensor, "b h s"]:
    total = torch.zeros(*call.shape[:2], call.shape[3], dtype=torch.float32, device=call.q.device)
    for part in call.parts():
        total[part.batch, part.heads, part.keys] += part.weights.sum(-2)
    return total


def top(call: "Call", count: int) -> tuple[Float[Tensor, "b h l n"], Int[Tensor, "b h l n"]]:
    """The largest weights of every row and their keys, largest first; key −1 where there are no more to be seen."""
    count = min(count, call.shape[3])
    if call.maps is None and count <= rows.MOST and rows.possible(call):
        return rows.top(call, count)
    return _top_by_parts(call, count)


def _top_by_parts(call: "Call", count: int, block: int = 32) -> tuple[Float[Tensor, "b h l n"], Int[Tensor, "b h l n"]]:
    """The `count` largest of a row lie in the `count` blocks with the largest maxima: only those are sorted."""
    batch, heads, queries, _ = call.shape
    values = torch.zeros(batch, heads, queries, count)
    indices = torch.full((batch, heads, queries, count), -1)
    for part in call.parts():
        w, first = part.weights, part.keys.start
        here = (part.batch, part.heads, part.rows, slice(min(count, w.shape[-1])))
        if w.shape[-1] <= 4 * count * block:
            best = w.topk(min(count, w.shape[-1]), -1)
            values[here], indices[here] = best.values, best.indices + first
            continue
        # A last block that is not full is filled with what is never among the largest.
        blocks = F.pad(w, (0, -w.shape[-1] % block), value=-1.0).unflatten(-1, (-1, block))
        chosen = blocks.amax(-1).topk(count, -1).indices  # (B, H, rows, count)
        inside = blocks.gather(-2, chosen[..., None].expand(*chosen.shape, block)).flatten(-2)
        best = inside.topk(count, -1)
        values[here] = best.values
        indices[here] = chosen.gather(-1, best.indices // block) * block + best.indices % block + first
    return values, indices
