"""Number of pairs of a query and a key: all, those that a mask leaves visible, and those computed.

The tiles of `regard.attention` follow a mask block by block, so they compute a few more pairs than are visible:

    visible  ≤  computed  ≤  all                                    each summed over batch and heads

A tile counts rows × keys. A causal square that torch's kernel masks itself counts its triangle, n·(n + 1)/2. The kernel
skips pairs beyond the diagonal in its own blocks, whose size depends on the version of torch.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.attention import Mask
from regard.attention.kernels.block_plan import BLOCK, plan_tiles
from regard.attention.masks.mask import MIXED, VISIBLE
from regard.costs.layer import Layer


@dataclass(frozen=True)
class Pairs:
    """Pairs of one call, summed over batch and heads.

    all         L·S
    visible     pairs that the mask shows
    computed    pairs in the blocks that the kernel computes

    >>> Pairs(9, 6, 6) + Pairs(4, 3, 4)
    Pairs(all=13, visible=9, computed=10)
    """

    all: int
    visible: int
    computed: int

    def __add__(self, other: "Pairs") -> "Pairs":
        return Pairs(self.all + other.all, self.visible + other.visible, self.computed + other.computed)


def count_pairs(layer: Layer) -> Pairs:
    """Return the pairs of a layer's call.

    >>> import regard
    >>> regard.cost(d_model=8, heads=1, seq=512, mask=regard.masks.causal()).estimates[0].pairs
    Pairs(all=262144, visible=131328, computed=155712)
    """
    all_pairs = layer.batch * layer.heads * layer.queries * layer.keys
    visible = all_pairs if layer.mask is None else _visible(layer, layer.mask)
    return Pairs(all_pairs, visible, _computed(layer) if layer.by_regard and not layer.materialised else all_pairs)


def _visible(layer: Layer, mask: Mask) -> int:
    queries, keys = layer.queries, layer.keys
    copies = (layer.batch // mask.batch_size) * (layer.heads // mask.head_count)
    if mask.relative:
        return copies * _visible_by_distance(mask, queries, keys)
    starts = np.arange(0, keys, BLOCK)
    stops = np.minimum(starts + BLOCK, keys)
    total = 0
    for b in range(mask.batch_size):
        for first in range(keys - queries, keys, BLOCK):
            last = min(first + BLOCK, keys)
            states = mask.states(b, first, last, starts, stops)
            total += (last - first) * mask.head_count * int((stops - starts)[states == VISIBLE].sum())
            total += _visible_in_blocks(mask, b, first, last, np.flatnonzero(states == MIXED), keys)
    return copies * total


def _visible_in_blocks(mask: Mask, b: int, first: int, last: int, blocks: NDArray[np.int64], keys: int) -> int:
    """Return the visible pairs of the queries first … last−1 with the keys of these blocks, by testing each pair."""
    if not blocks.size:
        return 0
    k = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    k = k[k < keys][None, None, :]
    h, q = np.arange(mask.head_count)[:, None, None], np.arange(first, last)[None, :, None]
    visible = np.asarray(mask.visible(np.array(b), h, q, k), bool)
    return int(np.broadcast_to(visible, (mask.head_count, last - first, k.size)).sum())


def _visible_by_distance(mask: Mask, queries: int, keys: int) -> int:
    """Return Σ_d visible(d) · (number of pairs at distance d), for a mask that depends only on the distance."""
    first = keys - queries  # position of the first query
    distance = np.arange(first - (keys - 1), keys)  # d = q − k
    # Pairs with q − k = d: q runs over first … keys−1, and k = q − d over 0 … keys−1.
    low, high = np.maximum(first, distance), np.minimum(keys - 1, keys - 1 + distance)
    visible = np.asarray(mask.visible(0, 0, distance, np.zeros_like(distance)), bool)
    return int((np.maximum(0, high - low + 1) * visible).sum())


def _computed(layer: Layer) -> int:
    total = 0
    for tile in plan_tiles(layer.mask, layer.queries, layer.keys, bias=layer.alibi):
        rows = tile.rows.stop - tile.rows.start
        triangle = tile.is_triangle and layer.alibi is None and not layer.mask_tensor
        items = len(range(layer.batch)[tile.batch])
        total += items * layer.heads * (rows * (rows + 1) // 2 if triangle else rows * tile.keys)
    return total
