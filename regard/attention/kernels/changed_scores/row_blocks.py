"""Attention whose scores are changed before softmax, by softcap or by a function, without the L×S matrix.

    softcap             blocks of rows, forward and backward by hand (softcap_tiles)
    a score function    blocks of rows in differentiable operations, each computed again in the backward pass, so that
                        gradients also reach tensors that the function uses, such as a learned bias

A second derivative, torch.func and torch.compile use the formula on all pairs.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.attention.kernels.additive_mask import BiasRule, TileMasks, additive_mask, take_runs
from regard.attention.kernels.block_plan import Plan, Tile, choose_plan
from regard.attention.kernels.changed_scores import softcap_tiles
from regard.attention.kernels.changed_scores.score_change import ScoreChange
from regard.attention.kernels.device_attention import plan_rows
from regard.attention.kernels.materialized_weights import attend_by_formula, grouped_matmul, scaled_scores, softmax_rows
from regard.attention.kernels.private_torch_operators import in_forward_mode, in_func_transform, in_graph
from regard.attention.kernels.shape_4d import table_to_4d, to_4d
from regard.attention.kernels.vmap import apply_without_transforms
from regard.attention.masks import Mask


@dataclass(frozen=True)
class _Call:
    """Arguments that are not tensors."""

    plan: Plan
    mask: Mask | None
    bias: BiasRule | None
    scale: float
    change: ScoreChange

    def masks(self, q: Tensor, table: Tensor | None) -> TileMasks:
        return TileMasks(self.plan, table, self.bias, q.shape[1], q)

    def by_formula(self, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None) -> tuple[Tensor, Tensor]:
        added = additive_mask(q, k, self.mask, table, self.bias)
        return attend_by_formula(q, k, v, added, self.scale, self.change)


def attend_with_change(
    q: Float[Tensor, "... l d"],
    k: Float[Tensor, "... s d"],
    v: Float[Tensor, "... s d_v"],
    rule: Mask | None,
    table: Float[Tensor, "..."] | None,
    bias: BiasRule | None,
    scale: float,
    change: ScoreChange,
) -> tuple[Float[Tensor, "... l d_v"], Float[Tensor, "..."]]:
    """Return output and log-sum-exp, both differentiable; `table` is added to the scores."""
    grad = torch.is_grad_enabled()
    if (
        q.numel() == 0
        or k.numel() == 0
        or in_func_transform()
        or in_graph(q)
        or in_forward_mode()
        or (grad and table is not None and table.requires_grad)
    ):
        return attend_by_formula(q, k, v, additive_mask(q, k, rule, table, bias), scale, change)
    queries, keys, group = q.shape[-2], k.shape[-2], q.shape[-3] // k.shape[-3] if q.dim() > 2 else 1
    if q.is_cpu:
        tiles = choose_plan(rule, queries, keys, bias=bias)
    else:
        rule = None if rule is None else rule.to(q.device)
        tiles = plan_rows(rule, table, bias, queries, keys)
    call = _Call(softcap_tiles.split_rows(tiles, group), rule, bias, scale, change)
    table = None if table is None else table_to_4d(table, q.shape[:-3])
    q_4d, k_4d, v_4d = to_4d(q), to_4d(k), to_4d(v)
    if change.function is not None or change.softcap is None:
        out, lse = _by_function(q_4d, k_4d, v_4d, table, call)
    elif grad and (q.requires_grad or k.requires_grad or v.requires_grad):
        out, lse = _apply(q_4d, k_4d, v_4d, table, call)
    else:
        out, lse = softcap_tiles.forward(q_4d, k_4d, v_4d, call.masks(q_4d, table), scale, change.softcap)
    if q.dim() == 4:
        return out, lse
    return out.reshape(*q.shape[:-1], v.shape[-1]), lse.reshape(q.shape[:-1])


class _Softcap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, call: _Call) -> tuple[Tensor, Tensor]:
        assert call.change.softcap is not None
        out, lse = softcap_tiles.forward(q, k, v, call.masks(q, table), call.scale, call.change.softcap)
        ctx.save_for_backward(q, k, v, table, out, lse)
        ctx.call = call
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v, table, out, lse = ctx.saved_tensors
        call: _Call = ctx.call
        if grad is None and grad_lse is None:
            return (None,) * 5
        grad = torch.zeros_like(out) if grad is None else grad
        if not torch.is_grad_enabled():
            masks, softcap = call.masks(q, table), call.change.softcap
            assert softcap is not None
            return *softcap_tiles.backward(grad, grad_lse, q, k, v, out, lse, masks, call.scale, softcap), None, None
        # Called with create_graph=True: the gradient itself is differentiated.
        results, grads = call.by_formula(q, k, v, table), (grad, grad_lse)
        pairs = [(result, g) for result, g in zip(results, grads, strict=True) if g is not None]
        inputs = [x for x in (q, k, v) if x.requires_grad]
        found = iter(torch.autograd.grad([p[0] for p in pairs], inputs, [p[1] for p in pairs], create_graph=True))
        return *(next(found) if x.requires_grad else None for x in (q, k, v)), None, None


_apply = apply_without_transforms(_Softcap)


def _by_function(
    q: Float[Tensor, "b h l d"],
    k: Float[Tensor, "b g s d"],
    v: Float[Tensor, "b g s d_v"],
    table: Float[Tensor, "#b #h #l #s"] | None,
    call: _Call,
) -> tuple[Float[Tensor, "b h l d_v"], Float[Tensor, "b h l"]]:
    """Return output and log-sum-exp, computed tile by tile."""
    masks, batch = call.masks(q, table), q.shape[0]
    results: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(batch)]

    def attend_tile(tile: Tile, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        added, change = masks.of(tile), call.change
        scores = scaled_scores(q, k, call.scale)
        parts, at = [], 0
        for start, stop in tile.runs:
            columns = slice(at, at + stop - start)
            own = None if added is None else added[..., columns]
            items = range(*tile.batch.indices(batch))
            parts.append(change.apply(scores[..., columns], own, (items, tile.rows, slice(start, stop))))
            at = columns.stop
        w, lse = softmax_rows(parts[0] if len(parts) == 1 else torch.cat(parts, -1))
        return grouped_matmul(w, v.to(w.dtype)).to(q.dtype), lse

    for tile in call.plan:
        items = range(*tile.batch.indices(batch))
        own_q = q[tile.batch, :, tile.rows]
        if tile.runs:
            keys, values = take_runs(k[tile.batch], tile.runs, 2), take_runs(v[tile.batch], tile.runs, 2)
            if torch.is_grad_enabled():
                out, lse = checkpoint(
                    attend_tile, tile, own_q, keys, values, use_reentrant=False, preserve_rng_state=False
                )
            else:
                out, lse = attend_tile(tile, own_q, keys, values)
        else:
            out = own_q.new_zeros(*own_q.shape[:3], v.shape[-1])
            lse = own_q.new_full(own_q.shape[:3], float("-inf"), dtype=torch.promote_types(q.dtype, torch.float32))
        for place, item in enumerate(items):
            results[item].append((out[place], lse[place]))
    rows = [tuple(torch.cat(parts, 1) for parts in zip(*results[item], strict=True)) for item in range(batch)]
    return torch.stack([out for out, _ in rows]), torch.stack([lse for _, lse in rows])
