"""Peak memory of one call of an attention layer.

The peak is the largest number of bytes in use that torch's allocator has handed out *during* the call. Parameters, the
input and a KV cache exist before and are not included. The peak is the maximum over a few moments:

    project     input (if copied) · q, k, v
    attend      q, k, v · context · log-sum-exp or weights · mask · the kernel's buffers
    output      q, k, v · context · weights · output          (q, k and v live until the layer returns)
    backward    all saved tensors · gradients so far · pieces of dQ, dK and dV

The tiles, their mask strips and the pieces of keys come from `regard.attention.kernels`, which allocates them. The
kernel's buffers belong to torch: one block of scores per thread, so they depend on `torch.get_num_threads()`. On a CPU
without bfloat16 instructions, a product of bfloat16 matrices is added up in a float32 copy of its result; on a CPU with
matrix instructions (AMX), the kernel copies keys and values in half precision into the order that they need.
Predictions are within 5 % of measurements, mostly exact. With ALiBi, sinks, norms or dropout, and for the backward pass
in half precision, they are estimates. They leave out oneDNN's buffers for products of bfloat16 matrices on a CPU with
bfloat16 instructions: about 0.1 MB per thread.
"""

from collections.abc import Iterator

import torch

from regard.attention.kernels.block_plan import Tile, plan_tiles
from regard.attention.kernels.materialized_weights import HEAD_LOOP_PAIRS, ROW_BLOCK
from regard.attention.kernels.private_torch_operators import packs_half_precision_keys, sums_bfloat16_apart
from regard.attention.kernels.tiled_attention import split_keys
from regard.costs import stored_bytes as memory
from regard.costs.layer import Layer


def peak_memory(layer: Layer, *, backward: bool) -> int:
    """Return the peak of the bytes allocated during the call.

    >>> from regard import cost
    >>> cost(d_model=512, heads=8, seq=2048).estimates[0].peak == 5 * 4 * 2048 * 512    # q, k, v, context, output
    True
    """
    forward = _torch_forward(layer) if layer.kind == "torch" else _forward(layer, saves_weights=backward)
    return max([*forward, *(_backward(layer) if backward else [])])


def _forward(layer: Layer, *, saves_weights: bool) -> Iterator[int]:
    qkv, output = memory.qkv_bytes(layer), memory.output_bytes(layer)
    adds_bias_apart = layer.kind == "bare" and layer.bias
    yield 2 * qkv if adds_bias_apart else _input_copy(layer) + qkv + _projection_sums(layer)
    kept = qkv + layer.extra_bytes
    yield kept + (_materialized_forward(layer, saves_weights) if layer.materialised else _tiled_forward(layer))
    if layer.output:
        # Weights of short sequences come from one product for all heads, and merging its heads copies the context.
        one_product = layer.materialised and layer.heads > 1 and layer.queries * layer.keys < HEAD_LOOP_PAIRS
        contexts = 2 if one_product or layer.copies_context else 1
        outputs = 2 if layer.residual or not layer.contiguous else 1
        before = kept + contexts * memory.context_bytes(layer) + memory.weight_bytes(layer)
        yield before + max(output + _product_sums(layer, output), outputs * output)


def _projection_sums(layer: Layer) -> int:
    """Return the bytes of the float32 sums of the last product that projects q, k and v: one of 1, 2 or 3."""
    qkv = memory.qkv_bytes(layer)
    if layer.kind in ("single", "bare"):
        return _product_sums(layer, qkv // 3)
    return _product_sums(layer, qkv if layer.packed else qkv - memory.context_bytes(layer))


def _product_sums(layer: Layer, result: int) -> int:
    """Return the bytes of the float32 sums of a product whose result has so many bytes."""
    return result // layer.itemsize * 4 if layer.dtype == torch.bfloat16 and sums_bfloat16_apart() else 0


def _input_copy(layer: Layer) -> int:
    """Return the bytes of a copy of the input, which a projection and its backward need in another memory order."""
    if layer.contiguous:
        return 0
    other = 0 if layer.packed else layer.projected_keys * layer.key_dim
    return layer.batch * (layer.queries * layer.d_model + other) * layer.itemsize


def _tiled_forward(layer: Layer) -> int:
    """Return the bytes of context, log-sum-exp, mask and buffers while the tiles run."""
    row = layer.heads * (layer.d_k * layer.itemsize + layer.softmax_itemsize)  # output and log-sum-exp of a query
    result = layer.batch * layer.queries * row
    tensor, mask = layer.mask_tensor * layer.itemsize, memory.mask_numbers(layer) * layer.itemsize
    tiles = plan_tiles(layer.mask, layer.queries, layer.keys, bias=layer.alibi)
    if _is_one_call(layer, tiles):
        buffers = _kernel_buffers(layer, layer.batch, layer.queries, layer.keys)
        return tensor + max(mask + result + buffers, memory.mask_making_bytes(layer))
    peak = previous = 0  # the output of a tile is freed only after the next tile is computed
    for tile in (tile for tile in tiles if tile.runs):
        rows, items = _rows_and_items(layer, tile)
        gathered = 2 * items * layer.kv_heads * layer.d_k * tile.keys * layer.itemsize if len(tile.runs) > 1 else 0
        peak = max(peak, previous + items * rows * row + gathered + _kernel_buffers(layer, items, rows, tile.keys))
        previous = items * rows * row
    # The first mask is made after the causal squares at the start, which need none: their output exists by then.
    first = layer.batch * (tiles[0].rows.stop - tiles[0].rows.start) * row if tiles[0].is_triangle else 0
    return tensor + result + max(mask + peak, first + memory.mask_making_bytes(layer))


def _materialized_forward(layer: Layer, saves_weights: bool) -> int:
    """Return the bytes of weights, context and mask while the weights are computed."""
    pairs, head = layer.queries * layer.keys, layer.queries * layer.d_k * layer.itemsize
    making_mask = 0 if layer.mask is None else pairs * memory.MASK_MAKING
    if layer.itemsize < 4:  # scores, scores without empty rows, their softmax and the weights, each in float32
        weights = memory.pair_bytes(layer) // layer.itemsize * layer.softmax_itemsize
        return max(making_mask, memory.mask_bytes(layer) + 4 * weights + layer.lse_bytes)
    kept = memory.mask_bytes(layer) + memory.context_bytes(layer)
    if layer.mean_weights and not saves_weights and pairs >= HEAD_LOOP_PAIRS:
        return max(making_mask, kept + memory.weight_bytes(layer) + ROW_BLOCK * layer.keys * layer.itemsize + head)
    scaled_queries = head * (2 if layer.batch * layer.heads > 1 else 1)
    mean = memory.weight_bytes(layer) if layer.mean_weights else 0
    return max(making_mask, kept + memory.pair_bytes(layer) + scaled_queries + mean)


def _torch_forward(layer: Layer) -> Iterator[int]:
    """Yield the bytes in use after each step of torch's `nn.MultiheadAttention`, which copies q, k and v."""
    qkv, context = memory.qkv_bytes(layer), memory.context_bytes(layer)
    weights, output = memory.weight_bytes(layer), memory.output_bytes(layer)
    tensor = layer.mask_tensor * layer.itemsize
    mean = weights // layer.heads if layer.mean_weights else 0
    if layer.native:
        # With a mask, softmax is not in place and the mask is expanded.
        masked = weights + weights // layer.itemsize if layer.mask_tensor else 0
        yield tensor + max(2 * qkv, qkv + weights + masked)
        yield tensor + qkv + output + (weights + mean if layer.returns_weights else context)
        return
    yield tensor + _input_copy(layer) + qkv + _projection_sums(layer)
    yield tensor + (2 * qkv if layer.packed else qkv)
    if layer.materialised:
        yield tensor + qkv + 2 * weights
        yield tensor + qkv + weights + max(2 * context, context + output, output + mean)
        if mean and layer.itemsize < 4:  # torch computes the mean of a float32 copy
            yield tensor + qkv + weights + output + mean + (weights + mean) // layer.itemsize * 4
        return
    buffers = _kernel_buffers(layer, layer.batch, layer.queries, layer.keys)
    yield tensor + qkv + context + layer.lse_bytes + buffers
    yield tensor + context + output + _product_sums(layer, output)


def _backward(layer: Layer) -> Iterator[int]:
    """Yield the bytes in use after each step of the backward pass, without the gradient of the output."""
    qkv, context, output = memory.qkv_bytes(layer), memory.context_bytes(layer), memory.output_bytes(layer)
    size = layer.itemsize
    q_width = layer.heads * layer.d_k
    output_parameters = (q_width + layer.bias) * layer.d_model * size if layer.output else 0
    parameters = layer.parameters * size - output_parameters
    weights = memory.pair_bytes(layer) if layer.materialised else 0
    saved = output + _input_copy(layer) + qkv + context * (2 if layer.copies_context else 1) + layer.extra_bytes
    saved += output_parameters + layer.mask_tensor * size
    if layer.kind == "torch" and layer.materialised:
        yield saved + context + 3 * weights + (weights // layer.heads if layer.mean_weights else 0)
    else:
        saved += context if layer.output else 0  # the gradient of the context
        if layer.materialised:
            yield saved + 4 * weights + memory.key_value_bytes(layer) // 2
        else:
            yield saved + layer.lse_bytes + (_tiled_backward(layer) if layer.by_regard else _torch_backward(layer))
    kept = output + weights + output_parameters  # the weights are returned with the output
    inputs = layer.batch * layer.queries * layer.d_model * size
    if layer.packed:
        yield kept + 2 * qkv
        yield kept + qkv + parameters + inputs
    else:  # each part of a packed weight has a gradient of the whole weight's size, and two of them are added
        context_input = layer.batch * layer.projected_keys * layer.key_dim * size
        yield kept + inputs + context_input + 2 * parameters + q_width * layer.d_model * size


def _torch_backward(layer: Layer) -> int:
    """Return the bytes of dQ, dK, dV, a copy of dO, and buffers, with torch's own kernel."""
    buffers = _backward_kernel_buffers(layer, layer.queries, layer.keys)
    return 2 * memory.context_bytes(layer) + memory.key_value_bytes(layer) + buffers


def _tiled_backward(layer: Layer) -> int:
    """Return the bytes of dQ, dK, dV, the pieces they are added up from, mask and buffers."""
    context, key_values = memory.context_bytes(layer), memory.key_value_bytes(layer)
    mask = memory.mask_numbers(layer) * layer.itemsize
    tiles = plan_tiles(layer.mask, layer.queries, layer.keys, bias=layer.alibi)
    if _is_one_call(layer, tiles):
        pieces, keys = _pieces(tiles[0])
        buffers = _backward_kernel_buffers(layer, layer.queries, keys)
        if pieces == 1:
            return (0 if tiles[0].is_triangle else mask) + context + key_values + buffers
        return mask + context + key_values + max(key_values, context + buffers)
    peak = previous = 0
    for tile in (tile for tile in tiles if tile.runs):
        rows, items = _rows_and_items(layer, tile)
        pieces, keys = _pieces(tile)
        dq = items * layer.heads * layer.d_k * rows * layer.itemsize
        dk_dv = 2 * items * layer.kv_heads * layer.d_k * keys * layer.itemsize
        before = dk_dv if pieces > 1 else previous  # the previous piece is freed only after this one is computed
        buffers = _backward_kernel_buffers(layer, rows, keys)
        peak = max(peak, dq * min(2, pieces) + dk_dv + before + buffers)
        previous = dk_dv
    sums = key_values // layer.itemsize * layer.softmax_itemsize
    return context + sums + max(mask + peak, memory.mask_making_bytes(layer))


def _is_one_call(layer: Layer, tiles: tuple[Tile, ...]) -> bool:
    return len(tiles) == 1 and tiles[0].keys == layer.keys


def _rows_and_items(layer: Layer, tile: Tile) -> tuple[int, int]:
    return tile.rows.stop - tile.rows.start, len(range(layer.batch)[tile.batch])


def _pieces(tile: Tile) -> tuple[int, int]:
    """Return the number of pieces in which backward processes the keys of a tile, and the size of the largest."""
    if tile.is_triangle:
        return 1, tile.keys
    sizes = [columns.stop - columns.start for _, columns in split_keys(tile.runs)]
    return len(sizes), max(sizes)


def _block_rows(rows: int) -> int:
    """Return how many rows torch's kernel processes at a time."""
    return min(rows, 256 if rows >= 768 else 64 if rows >= 192 else 32)


def _kernel_buffers(layer: Layer, items: int, rows: int, keys: int) -> int:
    """Return the bytes of the buffers of torch's kernel, which processes a block of rows and keys per thread."""
    block = _block_rows(rows)
    scores = block * min(keys, 512)
    numbers = scores + 2 * block + block * layer.d_k  # scores, maxima and sums, output
    half_copy = scores * layer.itemsize if layer.itemsize < 4 else 0
    buffers = torch.get_num_threads() * (numbers * layer.softmax_itemsize + half_copy)
    return buffers + _packed_keys(layer, items, rows, keys)


def _packed_keys(layer: Layer, items: int, rows: int, keys: int) -> int:
    """Return the bytes of the copies of keys and values in the order of matrix instructions, where torch makes them."""
    if layer.itemsize >= 4 or not packs_half_precision_keys():
        return 0
    block, threads = _block_rows(rows), torch.get_num_threads()
    least_length, least_blocks = (64, 4) if layer.dtype == torch.bfloat16 else (16, 1)  # torch's own thresholds
    blocks_per_thread = -(-items * layer.heads * -(-rows // block) // threads)
    if min(rows, keys) < least_length or blocks_per_thread * block < least_blocks * items * layer.kv_heads:
        return 0
    width = layer.d_k + layer.d_k % 2  # rows of an odd width are padded
    copies = items * layer.kv_heads * keys * (width + layer.d_k)
    padded_queries = threads * block * width if layer.d_k % 2 else 0
    return (copies + padded_queries + threads * min(keys, 512) * width) * layer.itemsize


def _backward_kernel_buffers(layer: Layer, rows: int, keys: int) -> int:
    """Return the bytes of the buffers of torch's backward kernel."""
    return torch.get_num_threads() * 2 * _block_rows(rows) * min(keys, 512) * layer.softmax_itemsize
