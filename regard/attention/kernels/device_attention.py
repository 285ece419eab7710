"""Attention on devices other than the CPU: torch's fused function on whole inputs, or on tiles of them.

No tensor of L×S numbers is created, unless it is small beside the inputs (SMALL_MASK), and no value of a mask is read
on the host:

    no mask; causal with L = S; one tensor        one call of F.scaled_dot_product_attention
    a mask that is small                          the same, with the mask as a tensor
    other masks and biases                        a call for each block of rows, with the mask of this block
    log-sum-exp, or gradients under such a mask   the tiles of `autograd`, which compute the mask again backward
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.kernels.additive_mask import BiasRule, TileMasks, additive_mask, take_runs
from regard.attention.kernels.autograd import TileCall, flash_attention
from regard.attention.kernels.block_plan import Plan, Tile, one_tile, plan
from regard.attention.kernels.device_kernel import ROWS
from regard.attention.kernels.materialized_weights import attend_by_formula
from regard.attention.kernels.private_torch_operators import with_positive_scale, with_regular_strides
from regard.attention.kernels.shape_4d import equal_widths, table_to_4d, to_4d
from regard.attention.masks.causal_and_window import Causal
from regard.attention.masks.custom import BooleanTable
from regard.attention.masks.mask import And, Mask

SMALL_MASK = 8  # a mask is small if it has at most 1/8 as many numbers as queries and keys together


def attend_on_device(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visible: Bool[Tensor, "..."] | None,
    rule: Mask | None,
    table: Float[Tensor, "..."] | None,
    bias: BiasRule | None,
    scale: float,
    *,
    dropout: float = 0.0,
    lse: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the output and, if requested, the log-sum-exp.

    visible     boolean tensor that broadcasts to (..., H, L, S), or None
    rule        mask, or None; a pair is visible if neither `rule` nor `visible` hides it
    table       tensor that is added to the scores, or None
    bias        bias rule that is added to the scores, or None
    """
    queries, keys, width = q.shape[-2], k.shape[-2], v.shape[-1]
    grad = torch.is_grad_enabled()
    if q.numel() == 0 or k.numel() == 0 or (lse and grad and table is not None and table.requires_grad):
        rule = _with_table(rule, visible, q)
        out, row_lse = attend_by_formula(q, k, v, additive_mask(q, k, rule, table, bias), scale)
        return out, row_lse if lse else None
    if rule is None and bias is None and not lse and (visible is None or table is None):
        return sdpa(q, k, v, scale, table if visible is None else visible, dropout), None
    causal = isinstance(rule, Causal) and queries == keys and visible is None and table is None and bias is None
    if causal and not lse:
        # torch's own causal flag, which aligns at the start, replaces the mask.
        return sdpa(q, k, v, scale, None, dropout, is_causal=True), None
    rule = _with_table(rule, visible, q)
    if not lse and (
        (grad and table is not None and table.requires_grad)
        or _mask_size(rule, table, bias, q, k) <= q.numel() + k.numel()
    ):
        return sdpa(q, k, v, scale, additive_mask(q, k, rule, table, bias), dropout), None
    rule = None if rule is None else rule.to(q.device)
    tiles = one_tile(queries, keys, rule) if causal else plan_rows(rule, table, bias, queries, keys)
    if lse or (grad and not dropout and (q.requires_grad or k.requires_grad or v.requires_grad)):
        call = TileCall(tiles, rule, bias, scale, lse)
        out, row_lse = flash_attention(*equal_widths(q, k, v), table, call)
        return out[..., :width], row_lse if lse else None
    heads = q.shape[-3] if q.dim() > 2 else 1
    masks = TileMasks(tiles, None if table is None else table_to_4d(table, q.shape[:-3]), bias, heads, q)
    out = torch.cat([_attend_tile(to_4d(q), to_4d(k), to_4d(v), masks, tile, scale, dropout) for tile in tiles], 2)
    return out.reshape(*q.shape[:-1], width), None


def sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    *,
    is_causal: bool = False,
) -> Tensor:
    """Return torch's fused attention; heads may share keys."""
    q, scale = with_positive_scale(q, scale)
    mask = with_regular_strides(mask)
    grouped = q.dim() > 2 and bool(q.shape[-3] != k.shape[-3])  # torch.jit.trace makes tensors of comparisons
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=is_causal, scale=scale, enable_gqa=grouped
    )


def plan_rows(rule: Mask | None, table: Tensor | None, bias: BiasRule | None, queries: int, keys: int) -> Plan:
    """Return tiles of at most ROWS rows, for all batch items at once.

    Keys are skipped where parts of the mask that hold no tensor hide them. Tensors are not read: that would make the
    host wait for the device.
    """
    parts = rule.parts if isinstance(rule, And) else () if rule is None else (rule,)
    numbers = tuple(part for part in parts if part.parseable)
    tensors = tuple(part for part in parts if not part.parseable)
    plannable = None if not numbers else numbers[0] if len(numbers) == 1 else And(numbers)
    tiles: list[Tile] = []
    for tile in plan(plannable, queries, keys, block=ROWS):
        whole = not tensors and table is None and bias is None and (tile.rule is None or tile.is_triangle)
        inside = (*(() if tile.rule is None else (tile.rule,)), *tensors)
        hidden = None if not inside else inside[0] if len(inside) == 1 else And(inside)
        step = tile.rows.stop - tile.rows.start if whole else ROWS
        for start in range(tile.rows.start, tile.rows.stop, step):
            stop = min(start + step, tile.rows.stop)
            position = tile.position + start - tile.rows.start
            runs = ((tile.runs[0][0], position + stop - start),) if tile.is_triangle else tile.runs
            tiles.append(replace(tile, rows=slice(start, stop), position=position, runs=runs, rule=hidden))
    return tuple(tiles)


def _attend_tile(
    q: Tensor, k: Tensor, v: Tensor, masks: TileMasks, tile: Tile, scale: float, dropout: float
) -> Float[Tensor, "b h rows d_v"]:
    q = q[:, :, tile.rows]
    if not tile.runs:
        return q.new_zeros(*q.shape[:3], v.shape[-1])
    k, v = take_runs(k, tile.runs, 2), take_runs(v, tile.runs, 2)
    causal = masks.is_causal(tile)
    return sdpa(q, k, v, scale, None if causal else masks.of(tile), dropout, is_causal=causal)


def _with_table(rule: Mask | None, visible: Tensor | None, q: Tensor) -> Mask | None:
    """Return the mask that also hides what `visible` hides."""
    if visible is None:
        return rule
    table = BooleanTable(table_to_4d(visible, q.shape[:-3]))
    return table if rule is None else rule & table


def _mask_size(rule: Mask | None, table: Tensor | None, bias: BiasRule | None, q: Tensor, k: Tensor) -> int:
    """Return how many times SMALL_MASK numbers the additive mask has."""
    parts = [] if table is None else [table_to_4d(table, q.shape[:-3]).shape]
    if rule is not None:
        parts.append(torch.Size((rule.batch_size, rule.head_count, 1 if rule.by_key else q.shape[-2], k.shape[-2])))
    if bias is not None:
        parts.append(torch.Size((1, bias.heads, q.shape[-2], k.shape[-2])))
    return SMALL_MASK * torch.broadcast_shapes(*parts).numel()
