"""The fused kernel as a differentiable function: of q, k and v, once and twice, and under vmap.

The gradient runs on the kernel as well. Differentiated a second time, which the kernel cannot, the weights
are written out: exact, with memory quadratic in length, and only for those who ask.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend_checks import table_to_four, to_four
from regard.attention.kernels import tiles
from regard.attention.kernels.block_plan import Plan
from regard.attention.kernels.materialized import by_group, scores, softmax_rows
from regard.attention.kernels.torch_operators import in_func_transform
from regard.attention.kernels.vmap import eager, leading
from regard.attention.masks import Mask


@dataclass(frozen=True)
class Job:
    """What to compute, besides the tensors."""

    plan: Plan
    mask: Mask | None
    bias: tiles.BiasRule | None
    scale: float
    lse: bool  # whether the log-sum-exp is wanted, with −inf for empty rows


def flash(
    q: Float[Tensor, "... l d"],
    k: Float[Tensor, "... s d"],
    v: Float[Tensor, "... s d"],
    table: Tensor | None,
    job: Job,
) -> tuple[Float[Tensor, "... l d"], Float[Tensor, "..."]]:
    """Output and, if the job wants it, log-sum-exp (..., H, L).

    What `table` holds is added to the scores; it broadcasts to (..., H, L, S).
    """
    if in_func_transform():
        out, _, lse = _Flash.apply(q, k, v, table, job)  # type: ignore[no-untyped-call]
    elif torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out, _, lse = _apply(q, k, v, table, job)
    else:
        out, _, lse = run(q, k, v, table, job)
    return out, lse


def _additive(q: Tensor, table: Tensor | None, job: Job) -> tiles.Additive:
    four = None if table is None else table_to_four(table, q.shape[:-3])
    return tiles.Additive(job.plan, four, job.bias, q.shape[-3] if q.dim() > 2 else 1, q)


def run(q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, job: Job) -> tuple[Tensor, Tensor, Tensor]:
    """Output, log-sum-exp as `run_backward` wants it, and as it is (if the job wants it)."""
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    out, raw, lse = tiles.forward(to_four(q), to_four(k), to_four(v), _additive(q, table, job), job.scale, job.lse)
    if q.dim() == 4:
        return out, raw, lse
    rows = q.shape[:-1]
    return out.reshape(*rows, -1), raw.reshape(rows), lse.reshape(rows)


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, job: Job) -> tuple[Tensor, Tensor, Tensor]:
        out, raw, lse = run(q, k, v, table, job)
        return out, raw, lse if lse is not raw else raw.clone() if job.lse else raw.new_empty(())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        q, k, v, table, ctx.job = inputs
        out, raw, _ = output
        ctx.mark_non_differentiable(raw)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, table, out, raw)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: Any, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v, table, out, raw = ctx.saved_tensors
        if grad is None and grad_lse is None:
            return (None,) * 5
        grad = torch.zeros_like(out) if grad is None else grad
        if torch.is_grad_enabled():
            return *_Backward.apply(grad, grad_lse, q, k, v, out, raw, table, ctx.job), None, None  # type: ignore[no-untyped-call]
        return *run_backward(grad, grad_lse, q, k, v, out, raw, table, ctx.job), None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, job: Job) -> Any:
        (q, k, v), table = leading(info, in_dims, (q, k, v), table)
        out, raw, lse = _Flash.apply(q, k, v, table, job)  # type: ignore[no-untyped-call]
        return (out, raw, lse), (0, 0, 0 if job.lse else None)


_apply = eager(_Flash)


def run_backward(
    grad: Tensor,
    grad_lse: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    raw: Tensor,
    table: Tensor | None,
    job: Job,
) -> tuple[Tensor, ...]:
    """Gradients of q, k and v, from what `run` returned."""
    grad, q, k, v, out = (x if x.stride(-1) == 1 else x.contiguous() for x in (grad, q, k, v, out))
    four = q.dim() == 4
    rows = (-1, *q.shape[-3:-1]) if q.dim() > 2 else (1, 1, q.shape[0])
    found = tiles.backward(
        to_four(grad),
        grad_lse if grad_lse is None or four else grad_lse.reshape(rows),
        to_four(q),
        to_four(k),
        to_four(v),
        to_four(out),
        raw if four else raw.reshape(rows),
        _additive(q, table, job),
        job.scale,
    )
    return found if four else tuple(g.reshape(x.shape) for g, x in zip(found, (q, k, v), strict=True))


class _Backward(torch.autograd.Function):
    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        return run_backward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        grad, grad_lse, q, k, v, _, _, table, ctx.job = inputs
        ctx.save_for_backward(grad, grad_lse, q, k, v, table)

    @staticmethod
    def backward(ctx: Any, *more: Tensor) -> tuple[Tensor | None, ...]:
        grad, grad_lse, q, k, v, table = ctx.saved_tensors
        job: Job = ctx.job
        added = written_out(q, k, job.mask, table, job.bias)

        def plainly(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            w, lse = softmax_rows(scores(q, k, added, job.scale))
            return by_group(w, v.to(w.dtype)).to(q.dtype), lse.masked_fill(lse.isneginf(), 0.0)

        def gradients(grad: Tensor, grad_rows: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
            pull: Any = torch.func.vjp(plainly, q, k, v)[1]
            found: tuple[Tensor, ...] = pull((grad, grad_rows))
            return found

        wide = torch.promote_types(q.dtype, torch.float32)
        grad_rows = torch.zeros_like(grad[..., 0], dtype=wide) if grad_lse is None else grad_lse
        pull: Any = torch.func.vjp(gradients, grad, grad_rows, q, k, v)[1]
        dg, d_rows, dq, dk, dv = pull(more)
        return dg, None if grad_lse is None else d_rows, dq, dk, dv, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, grad: Tensor, grad_lse: Tensor | None, *rest: Any) -> Any:
        *tensors, table, job = rest
        rows, dims = (() if grad_lse is None else (grad_lse,)), in_dims[1:2] * (grad_lse is not None)
        front, table = leading(info, (in_dims[0], *in_dims[2:7], *dims, in_dims[7]), (grad, *tensors, *rows), table)
        return _Backward.apply(front[0], front[6] if rows else None, *front[1:6], table, job), (0, 0, 0)  # type: ignore[no-untyped-call]


def written_out(
    q: Tensor, k: Tensor, mask: Mask | None, table: Tensor | None, bias: tiles.BiasRule | None
) -> Tensor | None:
    """Everything that is added to the scores, as one tensor that broadcasts to (..., H, L, S); None for nothing."""
    queries, keys = q.shape[-2], k.shape[-2]
    total = table
    if bias is not None:
        heads = torch.arange(q.shape[-3] if q.dim() > 2 else 1, device=q.device)[:, None, None]
        places = torch.arange(keys - queries, keys, device=q.device)[:, None]
        values = bias.values(heads, places - torch.arange(keys, device=q.device)).to(q.dtype)
        total = values if total is None else total + values
    if mask is not None:
        seen = mask.tensor(queries, keys, device=q.device)
        if seen.dim() == 4:
            seen = seen if q.dim() >= 4 else seen[0] if q.dim() == 3 else seen[0, 0]
            seen = seen.reshape(*q.shape[:-3], *seen.shape[1:]) if seen.shape[0] > 1 and q.dim() > 4 else seen
        zero = torch.zeros((), dtype=q.dtype, device=q.device)
        total = torch.where(seen, zero if total is None else total, float("-inf"))
    return total
