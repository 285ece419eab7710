"""Bytes by part, and the peak: what is alive at the fullest moment.

Without the weights written out, memory is linear in length: q, k and v, the heads' merged output (the context),
the layer's output, and one log-sum-exp a row. Written out, the weights are B·H·L·S numbers and soon are all.

The peak is that of the bytes which torch's allocator hands out *during* the call: parameters, input and a KV
cache are there before and not in it. It is the largest of a few moments, each a sum of what is alive then:

    attend      q, k, v · context · log-sum-exp or weights · mask · the kernel's own buffers
    project     q, k, v · context · weights · output          (q, k and v live until the layer returns)
    backward    all that was kept · gradients so far · pieces of dQ, dK and dV

The kernel's buffers are torch's: a block of scores a thread, so they depend on `torch.get_num_threads()`.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch

from regard.attention import masks, planned
from regard.cost.layer import Layer

CAUSAL = masks.causal()
KEPT = ("parameters", "q, k, v", "context", "log-sum-exp", "attention matrix", "mask", "output", "KV cache")
GRADIENTS = "gradients"
INDEX = 8 + 3  # bytes a pair while a rule is asked: the distance as int64, and three booleans (causal has one)
KEYS_AT_ONCE = 368  # how many keys a piece of the backward takes at most (regard/attention/tiles.py)
HEAD_BY_HEAD = 128 * 128  # pairs from which weights are written one head after the other (weighed.py)
MEAN_AT_ONCE = 8 << 20  # bytes of weights that stand at once when only their mean is kept


def kept(layer: Layer, *, backward: bool) -> dict[str, int]:
    """Bytes of each part.

    >>> from regard.cost import cost
    >>> cost(d_model=512, heads=8, seq=[2048], materialised=True).estimates[0].bytes["attention matrix"]
    134217728
    """
    e, b = layer.size, layer.batch
    found = {
        "parameters": layer.parameters * e,
        "q, k, v": _qkv(layer),
        "context": _context(layer),
        "log-sum-exp": 0 if layer.materialised else b * layer.heads * layer.queries * layer.wide,
        "attention matrix": _weights(layer),
        "mask": _mask_held(layer),
        "output": _output(layer) if layer.out else 0,
        "KV cache": 0 if layer.cache is None else 2 * b * layer.kv_heads * layer.cache * layer.d_k * e,
    }
    inputs = b * layer.queries * layer.d_model + (0 if layer.packed else b * layer.projected * layer.key_dim)
    return found | ({GRADIENTS: (layer.parameters + inputs) * e} if backward else {})


def peak(layer: Layer, *, backward: bool) -> int:
    """Bytes alive at the fullest moment of the call, beyond what was there before it."""
    moments = list(_forward_moments(layer, keeps=backward))
    if backward:
        moments += _backward_moments(layer)
    return max(moments)


# -- the parts -----------------------------------------------------------------------------------------------


def _qkv(layer: Layer) -> int:
    q = layer.batch * layer.queries * layer.heads * layer.d_k
    return (q + 2 * layer.batch * layer.projected * layer.kv_heads * layer.d_k) * layer.size


def _key_values(layer: Layer) -> int:
    return 2 * layer.batch * layer.keys * layer.kv_heads * layer.d_k * layer.size


def _context(layer: Layer) -> int:
    return layer.batch * layer.queries * layer.heads * layer.d_k * layer.size


def _output(layer: Layer) -> int:
    return layer.batch * layer.queries * layer.d_model * layer.size


def _weights(layer: Layer) -> int:
    if not layer.materialised:
        return 0
    maps = 1 if layer.mean and layer.ours else layer.heads
    return layer.batch * maps * layer.queries * layer.keys * layer.size


def _mask_held(layer: Layer) -> int:
    """What is added to the scores because of a mask: a table, or a strip that slides along with the tiles."""
    held = layer.added * layer.size
    if layer.mask is None or not layer.ours:
        return held
    if layer.materialised:
        return held + layer.mask.batch_size * layer.mask.head_count * layer.queries * layer.keys * layer.size
    return held + _mask_numbers(layer) * layer.size


def _mask_numbers(layer: Layer) -> int:
    """Numbers of all strips, and of the largest table that a tile has beside them; ALiBi has one a head."""
    strips: dict[object, tuple[int, int, int, int]] = {}

    def cover(rule: object, heads: int, tile: Any) -> None:
        """Make the rule's strip reach over the tile: heads, rows, how far back and how far ahead."""
        _, rows, back, ahead = strips.get(rule, (heads, 0, -layer.keys, -layer.keys))
        rows = max(rows, tile.rows.stop - tile.rows.start)
        first, last = tile.place - tile.runs[0][0], tile.runs[-1][1] - tile.place
        strips[rule] = heads, rows, max(back, first), max(ahead, last)

    table = 0
    for tile in planned(layer.mask, layer.queries, layer.keys, bias=layer.alibi):
        pairs = (tile.rows.stop - tile.rows.start) * tile.keys
        if not tile.runs:
            continue
        if layer.alibi is not None:
            cover(None, layer.heads, tile)
        if tile.rule is None or (tile.triangle and layer.alibi is None):
            continue
        if tile.strip:
            cover(tile.rule, 1, tile)
        else:
            items = tile.rule.batch_size if tile.batch == slice(None) else 1
            table = max(table, items * tile.rule.head_count * pairs)
        if layer.alibi is not None:
            table = max(table, layer.heads * pairs)  # their sum
    return table + sum(heads * rows * (back + ahead) for heads, rows, back, ahead in strips.values())


def _mask_making(layer: Layer) -> int:
    """Bytes while the strip or table is made: distances as int64, booleans, and for ALiBi the distances as numbers."""
    numbers = _mask_numbers(layer)
    if not numbers:
        return 0
    if layer.alibi is None:
        return numbers * (INDEX - 2 if layer.mask == CAUSAL else INDEX) + 8 * layer.keys
    strip = layer.heads * min(layer.queries, 128) * (layer.keys + 128)
    return strip // layer.heads * (8 + 8 + 4) + strip * layer.size


def _block(rows: int) -> int:
    return min(rows, 256 if rows >= 768 else 64 if rows >= 192 else 32)


def _buffers(layer: Layer, rows: int, keys: int) -> int:
    """The kernel's own, forward: scores of a block, its maxima and sums, and its share of the output, a thread."""
    block, columns, half = _block(rows), min(keys, 512), layer.size < 4
    numbers = block * columns + 2 * block + block * layer.d_k
    return torch.get_num_threads() * (numbers * layer.wide + half * block * columns * layer.size)


def _buffers_backward(layer: Layer, rows: int, keys: int) -> int:
    return torch.get_num_threads() * 2 * _block(rows) * min(keys, 512) * layer.wide


# -- forward -------------------------------------------------------------------------------------------------


def _forward_moments(layer: Layer, *, keeps: bool) -> Iterator[int]:
    qkv, context, weights, y = _qkv(layer), _context(layer), _weights(layer), _output(layer)
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
    qkv = _qkv(layer)
    if layer.kind == "bare" and layer.bias:
        return 2 * qkv
    return _copied(layer) + qkv


def _copied(layer: Layer) -> int:
    """The input once more, where a projection must have it in another order; kept for the backward pass."""
    if layer.contiguous:
        return 0
    other = 0 if layer.packed else layer.projected * layer.key_dim
    return layer.batch * (layer.queries * layer.d_model + other) * layer.size


def _merged(layer: Layer) -> int:
    """Short weights are multiplied in one product for all heads, whose result is copied when heads are merged."""
    small = layer.materialised and layer.heads > 1 and layer.queries * layer.keys < HEAD_BY_HEAD
    return _context(layer) if small else 0


def _attending(layer: Layer) -> int:
    """Context, log-sum-exp, mask and buffers while the tiles run."""
    rows_of = layer.heads * layer.d_k * layer.size + layer.heads * layer.wide  # output and log-sum-exp of a query
    whole = layer.batch * layer.queries * rows_of
    numbers = _mask_numbers(layer)
    added = layer.added * layer.size
    plan = planned(layer.mask, layer.queries, layer.keys, bias=layer.alibi)
    if len(plan) == 1 and plan[0].keys == layer.keys:
        running = numbers * layer.size + whole + _buffers(layer, layer.queries, layer.keys)
        return added + max(running, _mask_making(layer))
    most = before = 0  # the output of a tile is still there while the next is computed
    for tile in plan:
        rows, items = tile.rows.stop - tile.rows.start, len(range(layer.batch)[tile.batch])
        gathered = 2 * items * layer.kv_heads * layer.d_k * tile.keys * layer.size if len(tile.runs) > 1 else 0
        if tile.runs:
            mine = items * rows * rows_of
            most = max(most, before + mine + gathered + _buffers(layer, rows, tile.keys))
            before = mine
    first = plan[0]  # a causal square of its own needs no mask, and its output is there when the first mask is made
    before = layer.batch * (first.rows.stop - first.rows.start) * rows_of if first.triangle else 0
    return added + whole + max(numbers * layer.size + most, before + _mask_making(layer))


def _weighing(layer: Layer, keeps: bool) -> int:
    """Weights, context and mask while the weights are written out."""
    pairs = layer.batch * layer.heads * layer.queries * layer.keys * layer.size
    context, weights, held = _context(layer), _weights(layer), _mask_held(layer)
    table = layer.mask is not None and layer.queries * layer.keys * INDEX  # while the rule is asked
    if layer.mean and not keeps:
        row = layer.batch * layer.heads * layer.keys * layer.size
        rows = min(layer.queries, max(16, MEAN_AT_ONCE // row))
        return max(int(table), held + 2 * context + weights + rows * row * (layer.heads + 1) // layer.heads)
    one = layer.queries * layer.d_k * layer.size * (2 if layer.batch * layer.heads > 1 else 1)
    return max(int(table), held + context + pairs + one + (weights if layer.mean else 0))


def _torch_moments(layer: Layer) -> Iterator[int]:
    """torch's `nn.MultiheadAttention`: packed, then copied apart; natively, in eval and without gradients."""
    qkv, context, weights, y = _qkv(layer), _context(layer), _weights(layer), _output(layer)
    added = layer.added * layer.size
    mean = weights // layer.heads if layer.mean else 0
    if layer.native:
        masked = weights + weights // layer.size if layer.added else 0  # softmax in another place; the mask, expanded
        yield added + max(2 * qkv, qkv + weights + masked)
        yield added + qkv + y + (weights + mean if layer.returned else context)
        return
    yield added + _copied(layer) + qkv
    yield added + (2 * qkv if layer.packed else qkv)
    if layer.materialised:
        yield added + qkv + 2 * weights
        yield added + qkv + weights + max(2 * context, context + y, y + mean)
        return
    lse = layer.batch * layer.heads * layer.queries * layer.wide
    yield added + qkv + context + lse + _buffers(layer, layer.queries, layer.keys)
    yield added + context + y


# -- backward ------------------------------------------------------------------------------------------------


def _backward_moments(layer: Layer) -> Iterator[int]:
    """With the output's gradient given, and the gradients of parameters and input made on the way."""
    qkv, context, e = _qkv(layer), _context(layer), layer.size
    y = _output(layer) if layer.out else 0
    q_width, kv_width = layer.heads * layer.d_k, layer.kv_heads * layer.d_k
    out = (q_width + layer.bias) * layer.d_model * e if layer.out else 0
    learned = layer.parameters * e - out
    held = y + _copied(layer) + qkv + context + layer.extra + out + layer.added * e
    weights = layer.batch * layer.heads * layer.queries * layer.keys * e if layer.materialised else 0
    arriving = context if layer.out else 0  # dO
    if layer.kind == "torch" and layer.materialised:
        yield held + context + 3 * weights + (weights // layer.heads if layer.mean else 0)
    elif layer.materialised:
        yield held + arriving + 4 * weights + _key_values(layer) // 2
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
    return 2 * _context(layer) + _key_values(layer) + _buffers_backward(layer, layer.queries, layer.keys)


def _tiled_backward(layer: Layer) -> int:
    """dQ, dK, dV, the pieces they are made of, mask and buffers."""
    context, key_values = _context(layer), _key_values(layer)
    plan = planned(layer.mask, layer.queries, layer.keys, bias=layer.alibi)
    mask = _mask_numbers(layer) * layer.size
    if len(plan) == 1 and plan[0].keys == layer.keys:
        if plan[0].triangle:
            return context + key_values + _buffers_backward(layer, layer.queries, layer.keys)
        count, size = _pieces(layer.keys)
        if count == 1:
            return mask + context + key_values + _buffers_backward(layer, layer.queries, layer.keys)
        one_more = context + _buffers_backward(layer, layer.queries, size)
        return mask + context + key_values + max(key_values, one_more)
    most = before = 0
    for tile in plan:
        rows, items = tile.rows.stop - tile.rows.start, len(range(layer.batch)[tile.batch])
        count, size = (1, tile.keys) if tile.triangle else _pieces(tile.keys)
        mine = items * layer.heads * layer.d_k * rows * layer.size
        shares = 2 * items * layer.kv_heads * layer.d_k * size * layer.size
        last = shares if count > 1 else before  # the share that came before is still there
        most = max(most, mine * min(2, count) + shares + last + _buffers_backward(layer, rows, size))
        before = shares
    wide = key_values // layer.size * layer.wide
    return context + wide + max(mask + most, _mask_making(layer))


def _pieces(keys: int) -> tuple[int, int]:
    """How many pieces of keys the backward of a tile takes, and of which size."""
    count = max(1, math.ceil(keys / KEYS_AT_ONCE))
    return count, 8 * math.ceil(math.ceil(keys / count) / 8) if count > 1 else keys
