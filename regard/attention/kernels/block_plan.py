"""Which blocks of a mask are worth computing.

A plan cuts the queries into blocks and lists, for each, the runs of keys that any of them can see. A block
in which everything is visible needs no mask at all; a hidden one is never touched:

    keys →   ■ visible: computed without a mask      ■ ■ ░ ·      row of blocks = one Tile
             ░ mixed: computed with a mask           · ■ ■ ░      runs = ((0, 3),), ((1, 4),) …
             · hidden: not computed                               in units of blocks

So time and memory follow the number of visible pairs, rounded up to blocks. Geometry only: no tensor here.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from regard.attention.masks.bands import Causal
from regard.attention.masks.custom import split_boolean_tables
from regard.attention.masks.mask import HIDDEN, VISIBLE, Mask

DENSE_BELOW = 64 * 64  # pairs; one call is faster than several for fewer pairs than this
BLOCK = 128
SMALL_BLOCK = 64  # for short sequences, where a finer staircase under the diagonal pays
TRIANGLE = 1024  # queries from which the kernel's own causal rule beats a staircase of blocks (bench/kernel.py)
Run = tuple[int, int]


@dataclass(frozen=True)
class Tile:
    """One call of the kernel: some batch items, a block of queries, the runs of keys they can see."""

    batch: slice  # which items of the batch
    rows: slice  # which queries, as indices
    place: int  # the place of the first of them
    runs: tuple[Run, ...]  # which keys; none for queries that see nothing
    rule: Mask | None  # what hides pairs inside; None when all of them are visible
    item: int  # the batch index to ask the rule about

    @property
    def keys(self) -> int:
        return sum(stop - start for start, stop in self.runs)

    @property
    def triangle(self) -> bool:
        """Whether it is a causal square, which the kernel knows without a mask."""
        return isinstance(self.rule, Causal) and len(self.runs) == 1 and self.runs[0][0] == self.place

    @property
    def strip(self) -> bool:
        """Whether its mask is a slice of a strip that many tiles share."""
        return self.rule is not None and self.rule.relative and len(self.runs) == 1


Plan = tuple[Tile, ...]


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
        return whole(queries, keys, rule)
    if bias is not None:
        # A bias rule is evaluated tile by tile; over all pairs of every head it would need the most memory of all.
        return blockwise(rule, queries, keys)
    return plan(rule, queries, keys)


def whole(queries: int, keys: int, rule: Mask | None = None) -> Plan:
    """Everything in one call."""
    return (Tile(slice(None), slice(0, queries), keys - queries, ((0, keys),), rule, 0),)


def plan(mask: Mask | None, queries: int, keys: int, *, block: int | None = None) -> Plan:
    """The calls that compute attention under a mask, and nothing that it hides.

    >>> from regard import masks
    >>> for tile in plan(masks.window(keys=100), 384, 384):
    ...     print(tile.rows, tile.runs)
    slice(0, 128, None) ((0, 128),)
    slice(128, 256, None) ((0, 256),)
    slice(256, 384, None) ((128, 384),)
    >>> plan(masks.padding([100]), 256, 256)[0].runs       # one call, no mask: the keys are cut off
    ((0, 100),)
    """
    if mask is None:
        return whole(queries, keys)
    block = block or (SMALL_BLOCK if queries <= 4 * SMALL_BLOCK else BLOCK)
    if mask.parseable:
        return _remembered(mask, queries, keys, block)
    return _plan(mask, queries, keys, block)


def blockwise(mask: Mask | None, queries: int, keys: int) -> Plan:
    """The same with no tile longer than a block of queries, for what is added to each score."""
    tiles: list[Tile] = []
    for tile in plan(mask, queries, keys):
        for start in range(tile.rows.start, tile.rows.stop, BLOCK):
            rows = slice(start, min(start + BLOCK, tile.rows.stop))
            tiles.append(replace(tile, rows=rows, place=tile.place + start - tile.rows.start))
    return tuple(tiles)


def _plan(mask: Mask, queries: int, keys: int, block: int) -> Plan:
    tiles: list[Tile] = []
    for item in range(mask.batch_size):
        batch = slice(item, None, mask.batch_size) if mask.batch_size > 1 else slice(None)
        tiles += _merged(_rows(mask, item, batch, queries, keys, block))
    return tuple(tiles)


_remembered = lru_cache(maxsize=256)(_plan)


def _rows(mask: Mask, item: int, batch: slice, queries: int, keys: int, block: int) -> list[Tile]:
    first = keys - queries
    cuts = {place for place in mask.boundaries(item, keys) if 0 < place < keys}
    if len(cuts) > 2 * keys // block + 1:
        cuts = set()  # so many that the blocks would be too small to be worth a call each
    edges = sorted({0, keys} | set(range(block, keys, block)) | cuts)
    starts, stops = np.array(edges[:-1]), np.array(edges[1:])
    places = sorted({first, keys} | {edge for edge in edges if edge > first} | set(range(0, first, -block)))
    tiles = []
    for q0, q1 in pairwise(places):
        states = mask.states(item, q0, q1, starts, stops)
        seen = np.flatnonzero(states != HIDDEN)
        runs = _runs(starts[seen], stops[seen])
        rule: Mask | None = None
        if seen.size and not (states[seen] == VISIBLE).all():
            rest = mask.restrict(item, q0, q1, runs[0][0], runs[-1][1])
            rule = rest if isinstance(rest, Mask) else None
        tiles.append(Tile(batch, slice(q0 - first, q1 - first), q0, runs, rule, item))
    return tiles


def _runs(
    starts: "np.ndarray[tuple[int], np.dtype[np.int64]]", stops: "np.ndarray[tuple[int], np.dtype[np.int64]]"
) -> tuple[Run, ...]:
    runs: list[Run] = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        if runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], stop)
        else:
            runs.append((start, stop))
    return tuple(runs)


def _merged(tiles: list[Tile]) -> list[Tile]:
    """Neighbours that see the same keys, all of them, are one tile; so is a long staircase under the diagonal."""
    out: list[Tile] = []
    for tile in tiles:
        if out and out[-1].rule is None and tile.rule is None and out[-1].runs == tile.runs:
            out[-1] = replace(out[-1], rows=slice(out[-1].rows.start, tile.rows.stop))
        else:
            out.append(tile)
    return _triangles(out)


def _triangles(tiles: list[Tile]) -> list[Tile]:
    out: list[Tile] = []
    at = 0
    while at < len(tiles):
        first, end = tiles[at], at + 1
        while first.triangle and end < len(tiles) and _goes_on(first, tiles[end - 1], tiles[end]):
            end += 1
        last = tiles[end - 1]
        if last.rows.stop - first.rows.start >= TRIANGLE:
            out.append(replace(first, rows=slice(first.rows.start, last.rows.stop), runs=last.runs))
        else:
            out += tiles[at:end]
        at = end
    return out


def _goes_on(first: Tile, last: Tile, next_: Tile) -> bool:
    """Whether the next tile is the next step of the staircase that begins with the first."""
    return (
        next_.rule == first.rule
        and len(next_.runs) == 1
        and next_.runs[0][0] == first.place
        and next_.rows.start == last.rows.stop
        and next_.runs[0][1] == first.place + next_.rows.stop - first.rows.start
    )
