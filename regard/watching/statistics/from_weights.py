"""Statistics computed from the weights themselves, whole or a block at a time."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.watching.call_inputs import CallInputs, PerQuery
from regard.watching.exact_weights import weight_blocks
from regard.watching.statistics.row_statistics import Statistics

SORT_BLOCK = 32  # keys per block when the largest weights of a long row are searched


def statistics(weights: Float[Tensor, "batch heads queries keys"]) -> Statistics:
    """Return the statistics of weights that a model computed itself; their log-sum-exp is unknown and set to 0."""
    w = weights.double()
    length, size = w.shape[-2:]
    position = torch.arange(size, dtype=torch.float64)
    mean, mean_square = w @ position, w @ position**2
    empty = w.sum(-1) == 0
    return Statistics(
        entropy=-(w * w.clamp_min(1e-300).log()).sum(-1).float(),
        distance=torch.where(empty, 0.0, torch.arange(size - length, size) - mean),
        spread=(mean_square - mean**2).clamp_min(0).sqrt().float(),
        sink=w[..., 0].float(),
        empty=empty,
        lse=torch.zeros_like(mean).float(),
    )


def expected_bias(call: CallInputs, lse: PerQuery) -> PerQuery:
    """Return Σ_j w_ij bias_ij, the mean bias in the scores of each query; 0 where the bias is only a mask."""
    expected = torch.zeros_like(lse)
    if call.bias_is_mask or call.bias is None:
        return expected  # a hidden key has weight 0 and bias −inf, and contributes 0
    bias = call.bias.expand(-1, -1, *call.shape[2:])
    for block in weight_blocks(call):
        b = block.batch if bias.shape[0] > 1 else slice(None)
        h = block.heads if bias.shape[1] > 1 else slice(None)
        values = bias[b, h, block.rows, block.keys].to(lse.dtype)
        values = values.masked_fill(values.isneginf(), 0.0)
        expected[block.batch, block.heads, block.rows] += (block.weights * values).sum(-1)
    return expected


def received(call: CallInputs) -> Float[Tensor, "batch heads keys"]:
    """Return the weight that each key receives from all queries together."""
    total = torch.zeros(*call.shape[:2], call.shape[3], dtype=torch.float32, device=call.q.device)
    for block in weight_blocks(call):
        total[block.batch, block.heads, block.keys] += block.weights.sum(-2)
    return total


def top(
    call: CallInputs, count: int
) -> tuple[Float[Tensor, "batch heads queries top"], Int[Tensor, "batch heads queries top"]]:
    """Return the largest weights of each query and their keys, largest first; key −1 where fewer are visible.

    The `count` largest weights of a row are among the `count` blocks with the largest maxima; only those are sorted.
    """
    values = torch.zeros(*call.shape[:3], count)
    indices = torch.full((*call.shape[:3], count), -1)
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
