"""What is alive at the moments of a backward pass, in bytes.

With the output's gradient given, and the gradients of parameters and input made on the way. The tiles take the
keys some hundred at a time: dQ is summed over the pieces, dK and dV are joined from them.
"""

import math
from collections.abc import Iterator

import torch

from regard.attention.kernels.block_plan import plan_tiles
from regard.attention.kernels.tiles import BACKWARD_KEYS
from regard.costs.layer import Layer
from regard.costs.memory import context_bytes, key_value_bytes, mask_making_bytes, mask_numbers, output_bytes, qkv_bytes
from regard.costs.peak_forward import block_of, copied


def backward_moments(layer: Layer) -> Iterator[int]:
    """With the output's gradient given, and the gradients of parameters and input made on the way."""
    qkv, context, e = qkv_bytes(layer), context_bytes(layer), layer.size
    y = output_bytes(layer) if layer.out else 0
    q_width, kv_width = layer.heads * layer.d_k, layer.kv_heads * layer.d_k
    out = (q_width + layer.bias) * layer.d_model * e if layer.out else 0
    learned = layer.parameters * e - out
    held = y + copied(layer) + qkv + context * (2 if layer.turned else 1) + layer.extra + out + layer.added * e
    weights = layer.batch * layer.heads * layer.queries * layer.keys * e if layer.materialised else 0
    arriving = context if layer.out else 0  # dO
    if layer.kind == "torch" and layer.materialised:
        yield held + context + 3 * weights + (weights // layer.heads if layer.mean else 0)
    elif layer.materialised:
        yield held + arriving + 4 * weights + key_value_bytes(layer) // 2
    else:
        lse = layer.batch * layer.heads * layer.queries * layer.wide
        yield held + arriving + lse + (_tiled_backward(layer) if layer.ours else _torch_backward(layer))
    gradients = (q_width * layer.queries + 2 * kv_width * layer.projected) * layer.batch * e
    inputs = layer.batch * layer.queries * layer.d_model * e
    y += weights  # returned with it
    if layer.packed:
        yield y + out + 2 * gradients
        yield y + out + gradients + learned + inputs
    else:  # each part of a packed weight has a gradient of the size of the whole, and two of them meet
        yield (
            y
            + out
            + inputs
            + layer.batch * layer.projected * layer.key_dim * e
            + 2 * learned
            + q_width * layer.d_model * e
        )


def _torch_backward(layer: Layer) -> int:
    """dQ, dK, dV, dO in another order, and buffers."""
    return 2 * context_bytes(layer) + key_value_bytes(layer) + buffers_backward(layer, layer.queries, layer.keys)


def _tiled_backward(layer: Layer) -> int:
    """dQ, dK, dV, the pieces they are made of, mask and buffers."""
    context, key_values = context_bytes(layer), key_value_bytes(layer)
    plan = plan_tiles(layer.mask, layer.queries, layer.keys, bias=layer.alibi)
    mask = mask_numbers(layer) * layer.size
    if len(plan) == 1 and plan[0].keys == layer.keys:
        if plan[0].triangle:
            return context + key_values + buffers_backward(layer, layer.queries, layer.keys)
        count, size = _pieces(layer.keys)
        if count == 1:
            return mask + context + key_values + buffers_backward(layer, layer.queries, layer.keys)
        one_more = context + buffers_backward(layer, layer.queries, size)
        return mask + context + key_values + max(key_values, one_more)
    most = before = 0
    for tile in plan:
        rows, items = tile.rows.stop - tile.rows.start, len(range(layer.batch)[tile.batch])
        count, size = (1, tile.keys) if tile.triangle else _pieces(tile.keys)
        mine = items * layer.heads * layer.d_k * rows * layer.size
        shares = 2 * items * layer.kv_heads * layer.d_k * size * layer.size
        last = shares if count > 1 else before  # the share that came before is still there
        most = max(most, mine * min(2, count) + shares + last + buffers_backward(layer, rows, size))
        before = shares
    wide = key_values // layer.size * layer.wide
    return context + wide + max(mask + most, mask_making_bytes(layer))


def _pieces(keys: int) -> tuple[int, int]:
    """How many pieces of keys the backward of a tile takes, and of which size."""
    count = max(1, math.ceil(keys / BACKWARD_KEYS))
    return count, 8 * math.ceil(math.ceil(keys / count) / 8) if count > 1 else keys


def buffers_backward(layer: Layer, rows: int, keys: int) -> int:
    return torch.get_num_threads() * 2 * block_of(rows) * min(keys, 512) * layer.wide
