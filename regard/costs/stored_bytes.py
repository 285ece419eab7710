"""Bytes of the tensors that an attention layer keeps, by part.

If the weights are not stored, memory is linear in length: q, k and v, the merged output of the heads (the context), the
layer's output, and one log-sum-exp per row. Stored weights have B·H·L·S numbers, which soon exceed everything else.
"""

from regard.attention import masks
from regard.attention.kernels.block_plan import plan_tiles, strip_size
from regard.costs.layer import Layer

CAUSAL = masks.causal()
MASK_MAKING = 8 + 3  # bytes per pair while a mask is computed: the distance as int64, and three booleans (causal: one)


def bytes_by_part(layer: Layer, *, backward: bool) -> dict[str, int]:
    """Return the bytes of each part.

    >>> from regard import cost
    >>> cost(d_model=512, heads=8, seq=[2048], materialised=True).estimates[0].bytes["attention matrix"]
    134217728
    """
    size, b = layer.itemsize, layer.batch
    parts = {
        "parameters": layer.parameters * size,
        "q, k, v": qkv_bytes(layer),
        "context": context_bytes(layer),
        "log-sum-exp": 0 if layer.materialised else layer.lse_bytes,
        "attention matrix": weight_bytes(layer),
        "mask": mask_bytes(layer),
        "output": output_bytes(layer),
        "KV cache": 2 * b * layer.kv_heads * (layer.cache_tokens or 0) * layer.d_k * size,
    }
    inputs = b * layer.queries * layer.d_model + (0 if layer.packed else b * layer.projected_keys * layer.key_dim)
    return parts | ({"gradients": (layer.parameters + inputs) * size} if backward else {})


def qkv_bytes(layer: Layer) -> int:
    """Return the bytes of the q, k and v that this call projects; their gradients take as many."""
    tokens = layer.queries * layer.heads + 2 * layer.projected_keys * layer.kv_heads
    return layer.batch * tokens * layer.d_k * layer.itemsize


def key_value_bytes(layer: Layer) -> int:
    """Return the bytes of the keys and values that are attended to, including those of a cache."""
    return 2 * layer.batch * layer.keys * layer.kv_heads * layer.d_k * layer.itemsize


def context_bytes(layer: Layer) -> int:
    """Return the bytes of the merged output of the heads."""
    return layer.batch * layer.queries * layer.heads * layer.d_k * layer.itemsize


def output_bytes(layer: Layer) -> int:
    """Return the bytes of the output projection's result; 0 without one."""
    return layer.batch * layer.queries * layer.d_model * layer.itemsize if layer.output else 0


def pair_bytes(layer: Layer) -> int:
    """Return the bytes of all weights: one number per batch item, head and pair."""
    return layer.batch * layer.heads * layer.queries * layer.keys * layer.itemsize


def weight_bytes(layer: Layer) -> int:
    """Return the bytes of the stored weights."""
    if not layer.materialised:
        return 0
    return pair_bytes(layer) // (layer.heads if layer.mean_weights and layer.by_regard else 1)


def mask_bytes(layer: Layer) -> int:
    """Return the bytes of the tensors that are added to the scores for a mask."""
    numbers = layer.mask_tensor
    if layer.mask is not None and layer.by_regard:
        full_table = layer.mask.batch_size * layer.mask.head_count * layer.queries * layer.keys
        numbers += full_table if layer.materialised else mask_numbers(layer)
    return numbers * layer.itemsize


def mask_numbers(layer: Layer) -> int:
    """Return the number of values of all mask strips (see `additive_mask.py`) and of the largest other mask."""
    tiles = [tile for tile in plan_tiles(layer.mask, layer.queries, layer.keys, bias=layer.alibi) if tile.runs]
    masked = [tile for tile in tiles if tile.rule is not None and not (tile.is_triangle and layer.alibi is None)]
    table = 0
    for tile in masked:
        pairs = (tile.rows.stop - tile.rows.start) * tile.keys
        if not tile.is_strip and tile.rule is not None:
            items = tile.rule.batch_size if tile.batch == slice(None) else 1
            table = max(table, items * tile.rule.head_count * pairs)
        if layer.alibi is not None:
            table = max(table, layer.heads * pairs)  # the sum of mask and ALiBi
    strips = 0
    for rule in {tile.rule for tile in masked if tile.is_strip}:
        height, width, _ = strip_size([tile for tile in masked if tile.rule == rule])
        strips += height * width
    if layer.alibi is not None and tiles:
        height, width, _ = strip_size(tiles)
        strips += layer.heads * height * width
    return table + strips


def mask_making_bytes(layer: Layer) -> int:
    """Return the bytes in use while a tensor for a mask is computed: distances, booleans, values of ALiBi."""
    numbers = mask_numbers(layer)
    if not numbers:
        return 0
    if layer.alibi is None:
        return numbers * (MASK_MAKING - 2 if layer.mask == CAUSAL else MASK_MAKING) + 8 * layer.keys
    strip = min(layer.queries, 128) * (layer.keys + 128)
    return strip * (8 + 8 + 4) + layer.heads * strip * layer.itemsize
