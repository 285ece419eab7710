"""Block plans: which blocks of pairs have to be computed under a mask.

A plan cuts the queries into blocks and lists, for each, the runs of keys that any of them can see. A block in which
all pairs are visible needs no mask; a hidden block is skipped:

    keys →   ■ visible: computed without a mask      ■ ■ ░ ·      row of blocks = one Tile
             ░ mixed: computed with a mask           · ■ ■ ░      runs = ((0, 3),), ((1, 4),) …
             · hidden: not computed                               in units of blocks

Time and memory are therefore proportional to the number of visible pairs, rounded up to blocks. This module computes
with indices only, not with tensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from regard.attention.masks.causal_and_window import Causal
from regard.attention.masks.custom import split_boolean_tables
from regard.attention.masks.mask import HIDDEN, VISIBLE, Mask, Positions

DENSE_BELOW = 64 * 64  # number of pairs up to which one kernel call is faster than several
BLOCK = 128
SMALL_BLOCK = 64  # block size of short sequences, where it is faster than BLOCK under a causal mask
TRIANGLE = 1024  # number of queries from which torch's causal flag is faster than several tiles (bench/kernel.py)
Run = tuple[int, int]


@dataclass(frozen=True)
class Tile:
    """One call of the kernel: batch items, a block of queries, and the runs of keys they can see."""

    batch: slice  # batch items
    rows: slice  # queries, as indices
    position: int  # position of the first query
    runs: tuple[Run, ...]  # keys as (start, stop); () for queries that see no key
    rule: Mask | None  # mask inside the tile; None if all pairs are visible
    item: int  # batch index to pass to the rule

    @property
    def keys(self) -> int:
        """Number of keys in all runs."""
        return sum(stop - start for start, stop in self.runs)

    @property
    def is_triangle(self) -> bool:
        """Whether the mask is causal and the first key is at the first query: torch's causal flag can replace it."""
        return isinstance(self.rule, Causal) and len(self.runs) == 1 and self.runs[0][0] == self.position

    @property
    def is_strip(self) -> bool:
        """Whether the mask depends on distance only, so that many tiles can share one tensor, a strip."""
        return self.rule is not None and self.rule.relative and len(self.runs) == 1


Plan = tuple[Tile, ...]


def strip_size(tiles: Sequence[Tile]) -> tuple[int, int, int]:
    """Return height, width and base of a strip that contains every tile's mask; its first entry has distance `base`."""
    base = max(tile.position - tile.runs[0][0] for tile in tiles)
    width = max(base - tile.position + tile.runs[-1][1] for tile in tiles)
    return max(tile.rows.stop - tile.rows.start for tile in tiles), width, base


def plan_tiles(mask: Mask | None, queries: int, keys: int, *, bias: object | None = None) -> Plan:
    """Return the kernel calls that `attend` makes under a mask on the CPU, without weights or dropout.

    bias    a bias rule such as `Alibi`, or None; a bias that is a tensor does not change the plan

    >>> from regard import masks
    >>> [(tile.rows.stop - tile.rows.start, tile.keys) for tile in plan_tiles(masks.window(keys=100), 384, 384)]
    [(128, 128), (128, 256), (128, 256)]
    """
    return choose_plan(None if mask is None else split_boolean_tables(mask)[0], queries, keys, bias=bias)


def choose_plan(rule: Mask | None, queries: int, keys: int, *, bias: object | None) -> Plan:
    """Return the plan for a mask without boolean tables (see `split_boolean_tables`)."""
    if queries < 32 or queries * keys <= DENSE_BELOW:
        return one_tile(queries, keys, rule)
    if bias is None:
        return plan(rule, queries, keys)
    # A bias rule is evaluated tile by tile: its values for all queries at once would be the largest tensor.
    return tuple(
        replace(tile, rows=slice(start, min(start + BLOCK, tile.rows.stop)), position=keys - queries + start)
        for tile in plan(rule, queries, keys)
        for start in range(tile.rows.start, tile.rows.stop, BLOCK)
    )


def one_tile(queries: int, keys: int, rule: Mask | None = None) -> Plan:
    """Return the plan that computes all pairs in one call."""
    return (Tile(slice(None), slice(0, queries), keys - queries, ((0, keys),), rule, 0),)


def plan(mask: Mask | None, queries: int, keys: int, *, block: int | None = None) -> Plan:
    """Return the kernel calls (tiles) that compute attention under a mask, without the blocks that the mask hides.

    >>> from regard import masks
    >>> for tile in plan(masks.window(keys=100), 384, 384):
    ...     print(tile.rows, tile.runs)
    slice(0, 128, None) ((0, 128),)
    slice(128, 256, None) ((0, 256),)
    slice(256, 384, None) ((128, 384),)
    >>> plan(masks.padding([100]), 256, 256)[0].runs       # one call without a mask: padded keys are cut off
    ((0, 100),)
    """
    if mask is None:
        return one_tile(queries, keys)
    block = block or (SMALL_BLOCK if queries <= 4 * SMALL_BLOCK else BLOCK)
    return (_cached_plan if mask.parseable else _plan)(mask, queries, keys, block)


def _plan(mask: Mask, queries: int, keys: int, block: int) -> Plan:
    tiles: list[Tile] = []
    for item in range(mask.batch_size):
        batch = slice(item, None, mask.batch_size) if mask.batch_size > 1 else slice(None)
        tiles += _merge_triangles(_merge_rows(_rows_of_blocks(mask, item, batch, queries, keys, block)))
    return tuple(tiles)


_cached_plan = lru_cache(maxsize=256)(_plan)


def _rows_of_blocks(mask: Mask, item: int, batch: slice, queries: int, keys: int, block: int) -> list[Tile]:
    first = keys - queries
    boundaries = {position for position in mask.boundaries(item, keys) if 0 < position < keys}
    if len(boundaries) > 2 * keys // block + 1:
        boundaries = set()  # with so many boundaries, blocks would be too small for a call each
    edges = sorted({0, keys} | set(range(block, keys, block)) | boundaries)
    starts, stops = np.array(edges[:-1]), np.array(edges[1:])
    positions = sorted({first, keys} | {edge for edge in edges if edge > first} | set(range(0, first, -block)))
    tiles = []
    for q0, q1 in pairwise(positions):
        states = mask.states(item, q0, q1, starts, stops)
        visible = np.flatnonzero(states != HIDDEN)
        runs = _join_runs(starts[visible], stops[visible])
        rule: Mask | None = None
        if visible.size and not (states[visible] == VISIBLE).all():
            restricted = mask.restrict(item, q0, q1, runs[0][0], runs[-1][1])
            rule = restricted if isinstance(restricted, Mask) else None
        tiles.append(Tile(batch, slice(q0 - first, q1 - first), q0, runs, rule, item))
    return tiles


def _join_runs(starts: Positions, stops: Positions) -> tuple[Run, ...]:
    runs: list[Run] = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        if runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], stop)
        else:
            runs.append((start, stop))
    return tuple(runs)


def _merge_rows(tiles: list[Tile]) -> list[Tile]:
    """Merge neighbouring tiles that see the same keys without a mask."""
    merged: list[Tile] = []
    for tile in tiles:
        if merged and merged[-1].rule is None and tile.rule is None and merged[-1].runs == tile.runs:
            merged[-1] = replace(merged[-1], rows=slice(merged[-1].rows.start, tile.rows.stop))
        else:
            merged.append(tile)
    return merged


def _merge_triangles(tiles: list[Tile]) -> list[Tile]:
    """Merge consecutive tiles of one causal mask into one tile if they have at least TRIANGLE queries together."""
    merged: list[Tile] = []
    at = 0
    while at < len(tiles):
        first, end = tiles[at], at + 1
        while first.is_triangle and end < len(tiles) and _continues(first, tiles[end - 1], tiles[end]):
            end += 1
        last = tiles[end - 1]
        if last.rows.stop - first.rows.start >= TRIANGLE:
            merged.append(replace(first, rows=slice(first.rows.start, last.rows.stop), runs=last.runs))
        else:
            merged += tiles[at:end]
        at = end
    return merged


def _continues(first: Tile, last: Tile, tile: Tile) -> bool:
    """Return whether `tile` comes after `last` under the causal mask of `first`, so that the three can be merged."""
    return (
        tile.rule == first.rule
        and len(tile.runs) == 1
        and tile.runs[0][0] == first.position
        and tile.rows.start == last.rows.stop
        and tile.runs[0][1] == first.position + tile.rows.stop - first.rows.start
    )
