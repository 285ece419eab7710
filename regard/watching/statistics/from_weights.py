"""Statistics computed from the weights themselves, a block at a time: for eager attention and changed scores."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.watching.call_inputs import CallInputs
from regard.watching.exact_weights import weight_blocks
from regard.watching.statistics.row_statistics import Statistics

SORT_BLOCK = 32  # keys per block when the largest weights of a long row are searched


def statistics(call: CallInputs, sinks: tuple[int, ...] = (0,)) -> Statistics:
    """Return all statistics; mean position and spread are those of the weights divided by their sum.

    The log-sum-exp is unknown where a model has computed the weights itself, and set to 0.
    """
    batch, heads, length, size = call.shape
    like = call.like
    total = like.new_zeros(6, batch, heads, length, dtype=torch.float64)  # entropy, Σw, Σwp, Σwp², sink, visible keys
    position = torch.arange(size, dtype=torch.float64, device=like.device)
    lse = like.new_full((batch, heads, length), -torch.inf if call.eager_weights is None else 0.0, dtype=torch.float32)
    for block in weight_blocks(call, with_lse=True):
        w, p = block.weights.double(), position[block.keys]
        parts = [-torch.special.xlogy(w, w).sum(-1), w.sum(-1), w @ p, w @ p**2, _on(w, block.keys, sinks), w.any(-1)]
        total[:, block.batch, block.heads, block.rows] = torch.stack(parts)
        if block.lse is not None:
            lse[block.batch, block.heads, block.rows] = block.lse.float()
    entropy, weight, first, second, sink, some = total
    mean, square = (x / torch.where(weight == 0, 1.0, weight) for x in (first, second))
    return Statistics(
        entropy=entropy.float(),
        position=mean,
        spread=(square - mean**2).clamp_min(0).sqrt().float(),
        sink=sink.float(),
        empty=some == 0,
        lse=lse,
    )


def received(call: CallInputs) -> Float[Tensor, "batch heads keys"]:
    """Return the weight that each key receives from all queries together."""
    total = call.like.new_zeros(*call.shape[:2], call.shape[3], dtype=torch.float32)
    for block in weight_blocks(call):
        total[block.batch, block.heads, block.keys] += block.weights.sum(-2)
    return total


def _on(weights: Tensor, keys: slice, sinks: tuple[int, ...]) -> Tensor:
    """Return the weight on the keys in `sinks`, of which a block has those from keys.start to keys.stop."""
    inside = [key - keys.start for key in set(sinks) if keys.start <= key < keys.stop]
    return weights[..., inside].sum(-1)


def top(
    call: CallInputs, count: int
) -> tuple[Float[Tensor, "batch heads queries top"], Int[Tensor, "batch heads queries top"]]:
    """Return the largest weights of each query and their keys, largest first; key −1 where fewer are visible.

    The `count` largest weights of a row are among the `count` blocks with the largest maxima; only those are sorted.
    """
    values = torch.zeros(*call.shape[:3], count, device=call.like.device)
    indices = torch.full((*call.shape[:3], count), -1, device=call.like.device)
    for block in weight_blocks(call):
        w, first = block.weights, block.keys.start
        target = (block.batch, block.heads, block.rows, slice(min(count, w.shape[-1])))
        if w.shape[-1] <= 4 * count * SORT_BLOCK:
            best = w.topk(min(count, w.shape[-1]), -1)
            values[target], indices[target] = best.values, best.indices + first
            continue
        # A last block that is not full is padded with −1, which is never among the largest weights.
        pieces = F.pad(w, (0, -w.shape[-1] % SORT_BLOCK), value=-1.0).unflatten(-1, (-1, SORT_BLOCK))
        chosen = pieces.amax(-1).topk(count, -1).indices  # (b, h, rows, count)
        candidates = pieces.gather(-2, chosen[..., None].expand(*chosen.shape, SORT_BLOCK)).flatten(-2)
        best = candidates.topk(count, -1)
        values[target] = best.values
        indices[target] = chosen.gather(-1, best.indices // SORT_BLOCK) * SORT_BLOCK + best.indices % SORT_BLOCK + first
    return values, indices
