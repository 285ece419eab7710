"""The tiles inside torch.compile: one operator, `regard::attend`, that the compiler takes as it is.

A compiled graph cannot hold a plan made of Python objects. It can hold a string, and a rule made of plain
numbers is fully said by its repr: so the operator takes the rule as text, and plans when it runs.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from regard.attention.kernels.autograd import Job, run, run_backward
from regard.attention.kernels.block_plan import plan
from regard.attention.masks import Mask, parse

_read = lru_cache(maxsize=256)(parse)


def _job(q: Tensor, k: Tensor, mask: str, scale: float) -> Job:
    rule = _read(mask)
    return Job(plan(rule, q.shape[-2], k.shape[-2]), rule, None, scale, False)


@torch.library.custom_op("regard::attend", mutates_args=())
def _attend(q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, mask: str, scale: float) -> tuple[Tensor, Tensor]:
    out, lse, _ = run(q, k, v, table, _job(q, k, mask, scale))
    return out.contiguous(), lse.contiguous()


@_attend.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, mask: str, scale: float) -> tuple[Tensor, Tensor]:
    wide = torch.promote_types(q.dtype, torch.float32)
    return q.new_empty(q.shape), q.new_empty(q.shape[:-1], dtype=wide)


@torch.library.custom_op("regard::attend_backward", mutates_args=())
def _backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    table: Tensor | None,
    mask: str,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = run_backward(grad, None, q, k, v, out, lse, table, _job(q, k, mask, scale))
    return dq.contiguous(), dk.contiguous(), dv.contiguous()


@_backward.register_fake
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, table, ctx.mask, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output, table)


def _gradients(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, out, lse, table = ctx.saved_tensors
    dq, dk, dv = _backward(grad, q, k, v, out, lse, table, ctx.mask, ctx.scale)
    return dq, dk, dv, None, None, None


_attend.register_autograd(_gradients, setup_context=_save)


def attend_compiled(q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, rule: Mask, scale: float) -> Tensor:
    """Attention under a rule of plain numbers, as one node of a compiled graph."""
    out: Tensor = _attend(q, k, v, table, repr(rule), scale)[0]
    return out
