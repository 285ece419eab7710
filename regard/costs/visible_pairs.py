"""How many pairs of a query and a key: all there are, those that a mask leaves visible, those computed.

The tiles of `regard.attention` follow a mask block by block, so they compute a few more pairs than are visible:

    visible  ≤  computed  ≤  all                                    each summed over batch and heads

A tile counts rows × keys. A causal square that is left to the kernel's own rule counts its triangle, n·(n + 1)/2:
the kernel skips what lies beyond the diagonal by blocks of its own, which are torch's affair and change with it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.attention import Mask
from regard.attention.kernels.block_plan import plan_tiles
from regard.costs.layer import Layer

BLOCK = 128
MIXED, VISIBLE = 1, 2  # what Mask.states says of a block
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """Pairs of one call, over batch and heads."""

    all: int
    visible: int
    computed: int

    def __add__(self, other: "Pairs") -> "Pairs":
        return Pairs(self.all + other.all, self.visible + other.visible, self.computed + other.computed)


def count_pairs(layer: Layer) -> Pairs:
    """The pairs of a layer's call.

    >>> import regard
    >>> regard.cost(d_model=8, heads=1, seq=512, mask=regard.masks.causal()).estimates[0].pairs
    Pairs(all=262144, visible=131328, computed=155712)
    """
    every = layer.batch * layer.heads * layer.queries * layer.keys
    visible = every if layer.mask is None else visible_pairs(layer)
    return Pairs(every, visible, computed_pairs(layer) if layer.ours and not layer.materialised else every)


def visible_pairs(layer: Layer) -> int:
    """Pairs that the mask shows, exactly."""
    mask, queries, keys = layer.mask, layer.queries, layer.keys
    if mask is None:
        return layer.batch * layer.heads * queries * keys
    times = (layer.batch // mask.batch_size) * (layer.heads // mask.head_count)
    if mask.relative:
        return times * _by_distance(mask, queries, keys)
    starts = np.arange(0, keys, BLOCK)
    stops = np.minimum(starts + BLOCK, keys)
    total = 0
    for b in range(mask.batch_size):
        for first in range(keys - queries, keys, BLOCK):
            last = min(first + BLOCK, keys)
            states = mask.states(b, first, last, starts, stops)
            total += (last - first) * mask.head_count * int((stops - starts)[states == VISIBLE].sum())
            total += _in_mixed_blocks(mask, b, first, last, np.flatnonzero(states == MIXED), keys)
    return times * total


def _in_mixed_blocks(mask: Mask, b: int, first: int, last: int, blocks: Integers, keys: int) -> int:
    """Visible pairs of the queries at these places with the keys of these blocks: each pair is asked for."""
    if not blocks.size:
        return 0
    k = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    k = k[k < keys][None, None, :]
    h, q = np.arange(mask.head_count)[:, None, None], np.arange(first, last)[None, :, None]
    seen = np.asarray(mask.visible(np.array(b), h, q, k), bool)
    return int(np.broadcast_to(seen, (mask.head_count, last - first, k.size)).sum())


def _by_distance(mask: Mask, queries: int, keys: int) -> int:
    """For a rule on distance alone, Σ_d visible(d) · (number of pairs at distance d)."""
    first = keys - queries  # the place of the first query
    distance = np.arange(first - (keys - 1), keys)  # d = q − k, from the first query's to the last's
    # Pairs with q − k = d: q runs over first … keys−1, and k = q − d over 0 … keys−1.
    low, high = np.maximum(first, distance), np.minimum(keys - 1, keys - 1 + distance)
    seen = np.asarray(mask.visible(0, 0, distance, np.zeros_like(distance)), bool)
    return int((np.maximum(0, high - low + 1) * seen).sum())


def computed_pairs(layer: Layer) -> int:
    """Pairs that our tiles compute under the mask."""
    total = 0
    for tile in plan_tiles(layer.mask, layer.queries, layer.keys, bias=layer.alibi):
        rows = tile.rows.stop - tile.rows.start
        triangle = tile.triangle and layer.alibi is None and not layer.added
        items = len(range(layer.batch)[tile.batch])
        total += items * layer.heads * (rows * (rows + 1) // 2 if triangle else rows * tile.keys)
    return total
