"""What is alive at the moments of a forward pass, in bytes."""

from collections.abc import Iterator

import torch

from regard.attention.kernels.block_plan import plan_tiles
from regard.attention.kernels.materialized import HEAD_LOOP_PAIRS, ROW_BLOCK
from regard.costs.layer import Layer
from regard.costs.memory import (
    INDEX,
    context_bytes,
    mask_bytes,
    mask_making_bytes,
    mask_numbers,
    output_bytes,
    qkv_bytes,
    weight_bytes,
)


def forward_moments(layer: Layer, *, keeps: bool) -> Iterator[int]:
    qkv, context, weights, y = qkv_bytes(layer), context_bytes(layer), weight_bytes(layer), output_bytes(layer)
    if layer.kind == "torch":
        yield from _torch_moments(layer)
        return
    yield _projecting(layer)
    held = qkv + layer.extra
    yield held + (_weighing(layer, keeps) if layer.materialised else _attending(layer))
    if layer.out:
        yield held + context + _merged(layer) + weights + y * (2 if layer.residual or not layer.contiguous else 1)


def _projecting(layer: Layer) -> int:
    """The q, k and v projections themselves, where they take more than they leave."""
    qkv = qkv_bytes(layer)
    if layer.kind == "bare" and layer.bias:
        return 2 * qkv
    return copied(layer) + qkv


def copied(layer: Layer) -> int:
    """The input once more, where a projection must have it in another order; kept for the backward pass."""
    if layer.contiguous:
        return 0
    other = 0 if layer.packed else layer.projected * layer.key_dim
    return layer.batch * (layer.queries * layer.d_model + other) * layer.size


def _merged(layer: Layer) -> int:
    """Short weights are multiplied in one product for all heads, whose result is copied when heads are merged."""
    small = layer.materialised and layer.heads > 1 and layer.queries * layer.keys < HEAD_LOOP_PAIRS
    return context_bytes(layer) if small or layer.turned else 0


def _attending(layer: Layer) -> int:
    """Context, log-sum-exp, mask and buffers while the tiles run."""
    rows_of = layer.heads * layer.d_k * layer.size + layer.heads * layer.wide  # output and log-sum-exp of a query
    whole = layer.batch * layer.queries * rows_of
    numbers = mask_numbers(layer)
    added = layer.added * layer.size
    plan = plan_tiles(layer.mask, layer.queries, layer.keys, bias=layer.alibi)
    if len(plan) == 1 and plan[0].keys == layer.keys:
        running = numbers * layer.size + whole + buffers(layer, layer.queries, layer.keys)
        return added + max(running, mask_making_bytes(layer))
    most = before = 0  # the output of a tile is still there while the next is computed
    for tile in plan:
        rows, items = tile.rows.stop - tile.rows.start, len(range(layer.batch)[tile.batch])
        gathered = 2 * items * layer.kv_heads * layer.d_k * tile.keys * layer.size if len(tile.runs) > 1 else 0
        if tile.runs:
            mine = items * rows * rows_of
            most = max(most, before + mine + gathered + buffers(layer, rows, tile.keys))
            before = mine
    first = plan[0]  # a causal square of its own needs no mask, and its output is there when the first mask is made
    before = layer.batch * (first.rows.stop - first.rows.start) * rows_of if first.triangle else 0
    return added + whole + max(numbers * layer.size + most, before + mask_making_bytes(layer))


def _weighing(layer: Layer, keeps: bool) -> int:
    """Weights, context and mask while the weights are written out."""
    pairs = layer.batch * layer.heads * layer.queries * layer.keys * layer.size
    context, weights, held = context_bytes(layer), weight_bytes(layer), mask_bytes(layer)
    table = layer.mask is not None and layer.queries * layer.keys * INDEX  # while the rule is asked
    if layer.mean and not keeps and layer.queries * layer.keys >= HEAD_LOOP_PAIRS:
        rows = ROW_BLOCK * layer.keys * layer.size + layer.queries * layer.d_k * layer.size
        return max(int(table), held + context + weights + rows)
    one = layer.queries * layer.d_k * layer.size * (2 if layer.batch * layer.heads > 1 else 1)
    return max(int(table), held + context + pairs + one + (weights if layer.mean else 0))


def _torch_moments(layer: Layer) -> Iterator[int]:
    """torch's `nn.MultiheadAttention`: packed, then copied apart; natively, in eval and without gradients."""
    qkv, context, weights, y = qkv_bytes(layer), context_bytes(layer), weight_bytes(layer), output_bytes(layer)
    added = layer.added * layer.size
    mean = weights // layer.heads if layer.mean else 0
    if layer.native:
        masked = weights + weights // layer.size if layer.added else 0  # softmax in another place; the mask, expanded
        yield added + max(2 * qkv, qkv + weights + masked)
        yield added + qkv + y + (weights + mean if layer.returned else context)
        return
    yield added + copied(layer) + qkv
    yield added + (2 * qkv if layer.packed else qkv)
    if layer.materialised:
        yield added + qkv + 2 * weights
        yield added + qkv + weights + max(2 * context, context + y, y + mean)
        return
    lse = layer.batch * layer.heads * layer.queries * layer.wide
    yield added + qkv + context + lse + buffers(layer, layer.queries, layer.keys)
    yield added + context + y


def block_of(rows: int) -> int:
    return min(rows, 256 if rows >= 768 else 64 if rows >= 192 else 32)


def buffers(layer: Layer, rows: int, keys: int) -> int:
    """The kernel's own, forward: scores of a block, its maxima and sums, and its share of the output, a thread."""
    block, columns, half = block_of(rows), min(keys, 512), layer.size < 4
    numbers = block * columns + 2 * block + block * layer.d_k
    return torch.get_num_threads() * (numbers * layer.wide + half * block * columns * layer.size)
