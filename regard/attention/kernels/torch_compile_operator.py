"""Tiled attention inside torch.compile, as one custom operator, `regard::attend`.

A compiled graph cannot contain a block plan, which is made of Python objects, but it can contain a string. The repr of
a mask without tensors, such as `window(keys=256)`, describes it completely (`Mask.parseable`). The operator therefore
takes the mask as text, and parses it and makes the plan when it runs.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from regard.attention.kernels.autograd import TileCall, run, run_backward
from regard.attention.kernels.block_plan import plan
from regard.attention.masks import Mask, parse

_parse = lru_cache(maxsize=256)(parse)


def _tile_call(q: Tensor, k: Tensor, mask: str, scale: float) -> TileCall:
    rule = _parse(mask)
    return TileCall(plan(rule, q.shape[-2], k.shape[-2]), rule, None, scale, False)


@torch.library.custom_op("regard::attend", mutates_args=())
def _attend(q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, mask: str, scale: float) -> tuple[Tensor, Tensor]:
    out, lse, _ = run(q, k, v, table, _tile_call(q, k, mask, scale))
    return out.contiguous(), lse.contiguous()


@_attend.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, mask: str, scale: float) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(q.dtype, torch.float32)
    return q.new_empty(q.shape), q.new_empty(q.shape[:-1], dtype=dtype)


@torch.library.custom_op("regard::attend_backward", mutates_args=())
def _attend_backward(
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
    dq, dk, dv = run_backward(grad, None, q, k, v, out, lse, table, _tile_call(q, k, mask, scale))
    return dq.contiguous(), dk.contiguous(), dv.contiguous()


@_attend_backward.register_fake
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, table, ctx.mask, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output, table)


def _backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, out, lse, table = ctx.saved_tensors
    dq, dk, dv = _attend_backward(grad, q, k, v, out, lse, table, ctx.mask, ctx.scale)
    return dq, dk, dv, None, None, None


_attend.register_autograd(_backward, setup_context=_setup_context)


def attend_compiled(q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, rule: Mask, scale: float) -> Tensor:
    """Return attention as one node of a compiled graph; the mask `rule` holds no tensor, so `parse` reads its repr."""
    # Some versions of torch.compile trace __repr__() of a mask, but not repr(mask).
    out: Tensor = _attend(q, k, v, table, rule.__repr__(), scale)[0]
    return out
