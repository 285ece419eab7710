"""Scores of a call, computed a block at a time, for the visible pairs only.

On the CPU a block has at most 16 MB, and the blocks follow the plan by which `regard.attention` skips what a mask
hides. On other devices a block has a few rows of all heads, and the tensors of a mask are not read on the host.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention import Mask, masks
from regard.attention.kernels.block_plan import Tile, plan_tiles
from regard.attention.kernels.device_attention import plan_rows
from regard.attention.kernels.device_kernel import ROWS
from regard.attention.masks.custom import split_boolean_tables
from regard.watching.call_inputs import CallInputs
from regard.watching.weights.score_terms import apply_terms, has_tables

MAX_SCORES = 1 << 22  # scores computed at a time, 16 MB
MAX_ROWS = 256  # rows of a head computed at a time
LONG_ROWS = 8192  # with more keys, the mean position needs scores of higher precision
CACHED_SCORES = 1 << 18  # small heads are computed together up to this many scores, which fit in the CPU cache


class ScoreBlock(NamedTuple):
    """Scores of one batch item and their position in the whole (B, H, L, S)."""

    batch: int
    heads: slice
    rows: slice
    keys: slice
    scores: Float[Tensor, "heads rows keys"]
    triangular: bool  # row i of n does not see the last n − 1 − i keys; their scores are not replaced by −inf
    may_be_empty: bool  # whether a row may see nothing


def score_blocks(call: CallInputs) -> Iterator[ScoreBlock]:
    """Yield the score of every visible pair once; hidden pairs inside a block are −inf. Blocks share one buffer."""
    batch, heads, length, size = call.shape
    group = heads // call.k.shape[1]  # query heads per key/value head
    rule, tables = split_boolean_tables(call.mask) if call.mask is not None else (None, ())
    dtype = torch.float64 if call.q.dtype == torch.float64 else torch.float32
    device = call.q.device
    on_cpu = device.type == "cpu"
    if on_cpu:
        tiles, largest, together = plan_tiles(rule, length, size), max(MAX_SCORES, group * size), CACHED_SCORES
    else:
        rule, tables = None if rule is None else rule.to(device), tuple(table.to(device) for table in tables)
        tiles, largest = plan_rows(rule, None, None, length, size), heads * ROWS * size
        together = largest
    buffer = torch.empty(min(largest, heads * length * size), dtype=dtype, device=device)
    for tile in (tile for tile in tiles if tile.keys):
        triangular = _is_triangular(tile)
        tile_masks = [*([] if tile.rule is None or triangular else [tile.rule]), *tables]
        may_be_empty = bool(tile_masks) or has_tables(call)
        for b in range(*tile.batch.indices(batch)):
            k_t = call.k[b].to(dtype).transpose(1, 2)
            for rows, keys in _chunks(tile, triangular, group, MAX_ROWS if on_cpu else ROWS):
                count, width = rows.stop - rows.start, keys.stop - keys.start
                step = max(1, together // (group * count * width))
                for g in range(0, len(k_t), step):
                    h = slice(g * group, min(g + step, len(k_t)) * group)
                    scores = buffer[: (h.stop - h.start) * count * width].view(-1, count, width)
                    q = (call.q[b, h, rows].to(dtype) * call.factor).reshape(-1, group * count, call.q.shape[-1])
                    product, k_part = scores.view(-1, group * count, width), k_t[g : g + step, :, keys]
                    # In two parts, the sums over d_k have smaller rounding errors, which matter for long rows.
                    split = q.shape[-1] if size <= LONG_ROWS else q.shape[-1] // 2
                    torch.bmm(q[..., :split], k_part[:, :split], out=product)
                    if split < q.shape[-1]:
                        product.baddbmm_(q[..., split:], k_part[:, split:])
                    scores = apply_terms(call, scores[None], (slice(b, b + 1), h, rows, keys), rule=False)[0]
                    for mask in tile_masks:
                        scores.masked_fill_(~_visible(mask, b, h, rows, keys, size - length, scores), float("-inf"))
                    yield ScoreBlock(b, h, rows, keys, scores, triangular, may_be_empty)


def _is_triangular(tile: Tile) -> bool:
    """Whether each row of the tile sees exactly one key more than the row before, and the last row sees all keys."""
    end = tile.position + tile.rows.stop - tile.rows.start
    return (
        tile.rule == masks.causal()
        and len(tile.runs) == 1
        and tile.runs[0][0] <= tile.position < tile.runs[0][1] == end
    )


def _chunks(tile: Tile, triangular: bool, group: int, most_rows: int) -> Iterator[tuple[slice, slice]]:
    """Yield chunks of the tile's rows with their keys; in a triangular tile those up to the chunk's last row."""
    first, last = tile.runs[0][0], tile.runs[-1][1]
    step = max(1, min(most_rows, MAX_SCORES // (group * (last - first))))
    for start in range(tile.rows.start, tile.rows.stop, step):
        stop = min(start + step, tile.rows.stop)
        yield slice(start, stop), slice(first, tile.position + stop - tile.rows.start if triangular else last)


def _visible(mask: Mask, b: int, heads: slice, rows: slice, keys: slice, shift: int, like: Tensor) -> Tensor:
    """Return which pairs of a block the mask shows, for each head or for all."""
    h = torch.arange(heads.start, heads.stop if mask.head_count > 1 else heads.start + 1, device=like.device)
    position = torch.arange(rows.start, rows.stop, device=like.device)[:, None] + shift
    j = torch.arange(keys.start, keys.stop, device=like.device)
    # An index without dimensions would be read on the host.
    item = torch.arange(b, b + 1, device=like.device)[:, None, None]
    visible: Bool[Tensor, "#heads rows keys"] = mask.visible(item, h[:, None, None], position, j)
    return visible
