"""Bytes by part: what a layer keeps.

Without the weights written out, memory is linear in length: q, k and v, the heads' merged output (the context),
the layer's output, and one log-sum-exp a row. Written out, the weights are B·H·L·S numbers and soon are all.
"""

from typing import Any

from regard.attention import masks
from regard.attention.kernels.block_plan import plan_tiles
from regard.costs.layer import Layer

CAUSAL = masks.causal()
INDEX = 8 + 3  # bytes a pair while a rule is asked: the distance as int64, and three booleans (causal has one)


def kept(layer: Layer, *, backward: bool) -> dict[str, int]:
    """Bytes of each part.

    >>> from regard import cost
    >>> cost(d_model=512, heads=8, seq=[2048], materialised=True).estimates[0].bytes["attention matrix"]
    134217728
    """
    e, b = layer.size, layer.batch
    found = {
        "parameters": layer.parameters * e,
        "q, k, v": qkv_bytes(layer),
        "context": context_bytes(layer),
        "log-sum-exp": 0 if layer.materialised else b * layer.heads * layer.queries * layer.wide,
        "attention matrix": weight_bytes(layer),
        "mask": mask_bytes(layer),
        "output": output_bytes(layer) if layer.out else 0,
        "KV cache": 0 if layer.cache is None else 2 * b * layer.kv_heads * layer.cache * layer.d_k * e,
    }
    inputs = b * layer.queries * layer.d_model + (0 if layer.packed else b * layer.projected * layer.key_dim)
    return found | ({"gradients": (layer.parameters + inputs) * e} if backward else {})


def qkv_bytes(layer: Layer) -> int:
    q = layer.batch * layer.queries * layer.heads * layer.d_k
    return (q + 2 * layer.batch * layer.projected * layer.kv_heads * layer.d_k) * layer.size


def key_value_bytes(layer: Layer) -> int:
    return 2 * layer.batch * layer.keys * layer.kv_heads * layer.d_k * layer.size


def context_bytes(layer: Layer) -> int:
    return layer.batch * layer.queries * layer.heads * layer.d_k * layer.size


def output_bytes(layer: Layer) -> int:
    return layer.batch * layer.queries * layer.d_model * layer.size


def weight_bytes(layer: Layer) -> int:
    if not layer.materialised:
        return 0
    maps = 1 if layer.mean and layer.ours else layer.heads
    return layer.batch * maps * layer.queries * layer.keys * layer.size


def mask_bytes(layer: Layer) -> int:
    """What is added to the scores because of a mask: a table, or a strip that slides along with the tiles."""
    held = layer.added * layer.size
    if layer.mask is None or not layer.ours:
        return held
    if layer.materialised:
        return held + layer.mask.batch_size * layer.mask.head_count * layer.queries * layer.keys * layer.size
    return held + mask_numbers(layer) * layer.size


def mask_numbers(layer: Layer) -> int:
    """Numbers of all strips, and of the largest table that a tile has beside them; ALiBi has one a head."""
    strips: dict[object, tuple[int, int, int, int]] = {}

    def cover(rule: object, heads: int, tile: Any) -> None:
        """Make the rule's strip reach over the tile: heads, rows, how far back and how far ahead."""
        _, rows, back, ahead = strips.get(rule, (heads, 0, -layer.keys, -layer.keys))
        rows = max(rows, tile.rows.stop - tile.rows.start)
        first, last = tile.place - tile.runs[0][0], tile.runs[-1][1] - tile.place
        strips[rule] = heads, rows, max(back, first), max(ahead, last)

    table = 0
    for tile in plan_tiles(layer.mask, layer.queries, layer.keys, bias=layer.alibi):
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


def mask_making_bytes(layer: Layer) -> int:
    """Bytes while the strip or table is made: distances as int64, booleans, and for ALiBi the distances as numbers."""
    numbers = mask_numbers(layer)
    if not numbers:
        return 0
    if layer.alibi is None:
        return numbers * (INDEX - 2 if layer.mask == CAUSAL else INDEX) + 8 * layer.keys
    strip = layer.heads * min(layer.queries, 128) * (layer.keys + 128)
    return strip // layer.heads * (8 + 8 + 4) + strip * layer.size
