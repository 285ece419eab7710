"""Statistics computed from the weights, a block at a time: for eager attention, float64, and devices but the CPU."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.device_precision import widest_float
from regard.watching.call_inputs import CallInputs
from regard.watching.statistics.row_statistics import Statistics
from regard.watching.weights.exact_weights import weight_blocks

CHUNK = 32  # keys whose positions are summed in the precision of the weights
SORT_BLOCK = 32  # keys per block when the largest weights of a long row are searched


def statistics(call: CallInputs, sinks: tuple[int, ...] = (0,)) -> Statistics:
    """Return all statistics; mean position and spread are those of the weights divided by their sum.

    The log-sum-exp is unknown where a model has computed the weights itself, and set to 0.
    """
    batch, heads, length, size = call.shape
    like, wide = call.like, widest_float(call.like.device)
    total = like.new_zeros(5, batch, heads, length, dtype=wide)
    dtype = torch.promote_types(like.dtype, torch.float32)
    received = like.new_zeros(batch, heads, size, dtype=dtype)
    lse = like.new_full((batch, heads, length), -torch.inf if call.eager_weights is None else 0.0, dtype=dtype)
    scores_known = call.eager_weights is None and not call.edits
    largest = torch.full_like(lse, -torch.inf) if scores_known else None
    for block in weight_blocks(call, with_lse=True):
        w, rows = block.weights, (block.batch, block.heads, block.rows)
        entropy = -torch.special.xlogy(w, w).sum(-1)
        position, variance = _position_and_variance(w, block.keys.start, wide)
        parts = (entropy, position, variance, _on(w, block.keys, sinks), w.any(-1))
        total[:, *rows] = torch.stack([x.to(wide) for x in parts])
        received[block.batch, block.heads, block.keys] += w.sum(-2)
        if block.lse is not None:
            lse[rows] = block.lse.to(dtype)
            if largest is not None:  # log w = s − lse
                largest[rows] = (w.amax(-1).log() + block.lse).to(dtype)
    entropy, position, variance, sink, some = total
    return Statistics(
        entropy=entropy.to(dtype),
        position=position.clone(),
        spread=variance.sqrt().to(dtype),
        sink=sink.to(dtype),
        empty=some == 0,
        lse=lse,
        received=received,
        largest=largest,
    )


def _position_and_variance(
    w: Float[Tensor, "b h rows keys"], first: int, wide: torch.dtype
) -> tuple[Float[Tensor, "b h rows"], Float[Tensor, "b h rows"]]:
    """Return the mean position of the keys, of which the first is at `first`, and its variance; 0 for empty rows.

    Within a chunk of keys sums are in the precision of the weights, with positions counted from its middle; over
    chunks they are in the widest precision of the device. Otherwise the mean of 32,768 positions would be off by 0.003.
    The variance is a sum of squared distances from the key next to the mean.
    """
    keys = w.shape[-1]
    chunk = min(CHUNK, keys)
    pieces = F.pad(w, (0, -keys % chunk)).unflatten(-1, (-1, chunk))
    near = torch.arange(chunk, dtype=w.dtype, device=w.device) - chunk // 2
    weight, distance = (pieces @ torch.stack([torch.ones_like(near), near], -1)).to(wide).unbind(-1)
    middle = torch.arange(pieces.shape[-2], dtype=wide, device=w.device) * chunk + chunk // 2
    total = weight.sum(-1)
    total = torch.where(total == 0, 1.0, total)
    mean = (distance + middle * weight).sum(-1) / total
    centre = mean.round()
    squares = (torch.arange(keys, dtype=w.dtype, device=w.device) - centre.to(w.dtype)[..., None]).square_()
    variance = squares.mul_(w).sum(-1).to(wide) / total - (mean - centre) ** 2
    seen = w.any(-1)
    return (mean + first) * seen, variance.clamp_min(0) * seen


def received(call: CallInputs) -> Float[Tensor, "batch heads keys"]:
    """Return the weight that each key receives from all queries together."""
    total = call.like.new_zeros(*call.shape[:2], call.shape[3], dtype=torch.float32)
    for block in weight_blocks(call):
        total[block.batch, block.heads, block.keys] += block.weights.sum(-2)
    return total


def _on(weights: Tensor, keys: slice, sinks: tuple[int, ...]) -> Tensor:
    """Return the weight on the keys in `sinks`, of which a block has those from keys.start to keys.stop."""
    inside = [weights[..., key - keys.start] for key in set(sinks) if keys.start <= key < keys.stop]
    return sum(inside, torch.zeros_like(weights[..., 0]))


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
