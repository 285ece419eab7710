"""The fused kernel as a differentiable function of q, k and v: first and second derivatives, and vmap.

The gradient is computed by the kernel too. The kernel has no second derivative, which is therefore computed exactly
from the materialized weights, with memory quadratic in length.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.kernels import tiled_attention as tiles
from regard.attention.kernels.additive_mask import BiasRule, TileMasks, additive_mask
from regard.attention.kernels.block_plan import Plan
from regard.attention.kernels.materialized_weights import attend_by_formula
from regard.attention.kernels.private_torch_operators import in_func_transform
from regard.attention.kernels.shape_4d import table_to_4d, to_4d
from regard.attention.kernels.vmap import apply_without_transforms, move_batch_first
from regard.attention.masks import Mask


@dataclass(frozen=True)
class TileCall:
    """Arguments of `flash_attention` that are not tensors."""

    plan: Plan
    mask: Mask | None
    bias: BiasRule | None
    scale: float
    lse: bool  # whether the log-sum-exp is returned, with −inf for empty rows


def flash_attention(
    q: Float[Tensor, "... l d"],
    k: Float[Tensor, "... s d"],
    v: Float[Tensor, "... s d"],
    table: Tensor | None,
    call: TileCall,
) -> tuple[Float[Tensor, "... l d"], Float[Tensor, "..."]]:
    """Return the output and, if the call requests it, the log-sum-exp (..., H, L).

    `table` broadcasts to (..., H, L, S) and is added to the scores.
    """
    if in_func_transform():
        out, _, lse = _Flash.apply(q, k, v, table, call)  # type: ignore[no-untyped-call]
    elif torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out, _, lse = _apply(q, k, v, table, call)
    else:
        out, _, lse = run(q, k, v, table, call)
    return out, lse


def _tile_masks(q: Tensor, table: Tensor | None, call: TileCall) -> TileMasks:
    table = None if table is None else table_to_4d(table, q.shape[:-3])
    return TileMasks(call.plan, table, call.bias, q.shape[-3] if q.dim() > 2 else 1, q)


def run(q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, call: TileCall) -> tuple[Tensor, Tensor, Tensor]:
    """Return output, log-sum-exp with 0 for empty rows (for `run_backward`) and, if requested, with −inf for them."""
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    masks = _tile_masks(q, table, call)
    out, raw_lse, lse = tiles.forward(to_4d(q), to_4d(k), to_4d(v), masks, call.scale, call.lse)
    if q.dim() == 4:
        return out, raw_lse, lse
    rows = q.shape[:-1]
    return out.reshape(*rows, -1), raw_lse.reshape(rows), lse.reshape(rows)


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, call: TileCall) -> tuple[Tensor, Tensor, Tensor]:
        out, raw_lse, lse = run(q, k, v, table, call)
        return out, raw_lse, lse if lse is not raw_lse else raw_lse.clone() if call.lse else raw_lse.new_empty(())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        q, k, v, table, ctx.call = inputs
        out, raw_lse, _ = output
        ctx.mark_non_differentiable(raw_lse)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, table, out, raw_lse)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: Any, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v, table, out, raw_lse = ctx.saved_tensors
        if grad is None and grad_lse is None:
            return (None,) * 5
        grad = torch.zeros_like(out) if grad is None else grad
        if torch.is_grad_enabled():
            return *_FlashBackward.apply(grad, grad_lse, q, k, v, out, raw_lse, table, ctx.call), None, None  # type: ignore[no-untyped-call]
        return *run_backward(grad, grad_lse, q, k, v, out, raw_lse, table, ctx.call), None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, call: TileCall) -> Any:
        (q, k, v), table = move_batch_first(info, in_dims, (q, k, v), table)
        out, raw_lse, lse = _Flash.apply(q, k, v, table, call)  # type: ignore[no-untyped-call]
        return (out, raw_lse, lse), (0, 0, 0 if call.lse else None)


_apply = apply_without_transforms(_Flash)


def run_backward(
    grad: Tensor,
    grad_lse: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    raw_lse: Tensor,
    table: Tensor | None,
    call: TileCall,
) -> tuple[Tensor, ...]:
    """Return the gradients of q, k and v, from the results of `run`."""
    grad, q, k, v, out = (x if x.stride(-1) == 1 else x.contiguous() for x in (grad, q, k, v, out))
    masks = _tile_masks(q, table, call)
    if q.dim() == 4:
        return tiles.backward(grad, grad_lse, q, k, v, out, raw_lse, masks, call.scale)
    rows = (-1, *q.shape[-3:-1]) if q.dim() > 2 else (1, 1, q.shape[0])
    lse_4d, grad_lse_4d = raw_lse.reshape(rows), None if grad_lse is None else grad_lse.reshape(rows)
    grad_4d, q_4d, k_4d, v_4d, out_4d = (to_4d(x) for x in (grad, q, k, v, out))
    gradients = tiles.backward(grad_4d, grad_lse_4d, q_4d, k_4d, v_4d, out_4d, lse_4d, masks, call.scale)
    return tuple(gradient.reshape(x.shape) for gradient, x in zip(gradients, (q, k, v), strict=True))


class _FlashBackward(torch.autograd.Function):
    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        return run_backward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        grad, grad_lse, q, k, v, _, _, table, ctx.call = inputs
        ctx.save_for_backward(grad, grad_lse, q, k, v, table)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad, grad_lse, q, k, v, table = ctx.saved_tensors
        call: TileCall = ctx.call
        added = additive_mask(q, k, call.mask, table, call.bias)

        def attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            out, lse = attend_by_formula(q, k, v, added, call.scale)
            return out, lse.masked_fill(lse.isneginf(), 0.0)

        def gradients(grad: Tensor, grad_rows: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
            vjp: Any = torch.func.vjp(attention, q, k, v)[1]
            first: tuple[Tensor, ...] = vjp((grad, grad_rows))
            return first

        dtype = torch.promote_types(q.dtype, torch.float32)
        grad_rows = torch.zeros_like(grad[..., 0], dtype=dtype) if grad_lse is None else grad_lse
        vjp: Any = torch.func.vjp(gradients, grad, grad_rows, q, k, v)[1]
        d_grad, d_rows, dq, dk, dv = vjp(grads)
        return d_grad, None if grad_lse is None else d_rows, dq, dk, dv, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, grad: Tensor, grad_lse: Tensor | None, *rest: Any) -> Any:
        *tensors, table, call = rest
        rows, dims = (() if grad_lse is None else (grad_lse,)), in_dims[1:2] * (grad_lse is not None)
        moved, table = move_batch_first(
            info, (in_dims[0], *in_dims[2:7], *dims, in_dims[7]), (grad, *tensors, *rows), table
        )
        result = _FlashBackward.apply(moved[0], moved[6] if rows else None, *moved[1:6], table, call)  # type: ignore[no-untyped-call]
        return result, (0, 0, 0)
