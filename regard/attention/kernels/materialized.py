"""Attention with its weights written out: what `weights=True` returns.

    W = softmax(scale · q kᵀ + added)        out = W v

W is as large as it is; the point is to write it once. Scores, exponentials and weights share one buffer, in
large pages. Backward, with the gradients dO of the output and dW of the weights,

    dP = dO vᵀ + dW        dS = W ∘ (dP − rowsum(dP ∘ W))        dq = scale · dS k     dk = scale · dSᵀ q     dv = Wᵀ dO
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend_checks import table_to_four, to_four
from regard.attention.kernels import huge_pages as pages
from regard.attention.kernels.torch_operators import in_func_transform
from regard.attention.kernels.vmap import eager, leading

HEAD_LOOP_PAIRS = 128 * 128  # pairs of a head from which heads are computed one by one, each while it is in the cache
ROW_BLOCK = 512

Weights = Float[Tensor, "... l s"]


def weigh(
    q: Float[Tensor, "... l d_k"],
    k: Float[Tensor, "... s d_k"],
    v: Float[Tensor, "... s d_v"],
    added: Float[Tensor, "..."] | None,
    scale: float,
    *,
    dropout: float = 0.0,
    weights: bool | Literal["mean"] = True,
) -> tuple[Float[Tensor, "... l d_v"], Weights | None]:
    """Output, and the weights (or their mean over heads) when asked for."""
    half = q.dtype in (torch.float16, torch.bfloat16)
    if (
        half
        or dropout
        or q.device.type != "cpu"
        or torch.compiler.is_compiling()
        or (added is not None and added.requires_grad)
    ):
        maps, _ = softmax_rows(scores(q, k, added, scale))
        out = by_group(F.dropout(maps, dropout) if dropout else maps, v.to(maps.dtype)).to(q.dtype)
        maps = maps.to(q.dtype)
    elif in_func_transform():
        out, maps = _Weighed.apply(q, k, v, added, scale)  # type: ignore[no-untyped-call]
    elif torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out, maps = _apply(q, k, v, added, scale)
    elif weights == "mean" and q.dim() > 2:
        return _mean(q, k, v, added, scale)
    else:
        out, maps = _in_place(q, k, v, added, scale)
    if weights == "mean":
        return out, maps.mean(-3) if q.dim() > 2 else maps
    return out, maps if weights else None


def scores(q: Tensor, k: Tensor, added: Tensor | None, scale: float) -> Float[Tensor, "... l s"]:
    """Scaled scores, in float32 at least; differentiable."""
    wide = torch.promote_types(q.dtype, torch.float32)
    s = by_group(q.to(wide) * scale, k.to(wide).transpose(-1, -2))
    return s if added is None else s + added.to(wide)


def softmax_rows(s: Float[Tensor, "... l s"]) -> tuple[Float[Tensor, "... l s"], Float[Tensor, "... l"]]:
    """Weights and log-sum-exp of each row; differentiable; an empty row has weights 0 and log-sum-exp −inf."""
    if s.shape[-1] == 0:
        return s, s.sum(-1) - float("inf")
    empty = s.isneginf().all(-1, keepdim=True)
    safe = s.masked_fill(empty, 0.0)
    lse = safe.logsumexp(-1).masked_fill(empty[..., 0], float("-inf"))
    return safe.softmax(-1).masked_fill(empty, 0.0), lse


def by_group(left: Tensor, right: Tensor) -> Tensor:
    """left (..., H, n, m) @ right (..., H_kv, m, p), each right head serving H / H_kv left heads in turn."""
    if left.dim() < 3 or left.shape[-3] == right.shape[-3]:
        return left @ right
    grouped = left.unflatten(-3, (right.shape[-3], -1)) @ right.unsqueeze(-3)
    return grouped.flatten(-4, -3)


def _in_place(q: Tensor, k: Tensor, v: Tensor, added: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    w = pages.large(q.new_empty(*q.shape[:-1], k.shape[-2]))
    if q.shape[-2] * k.shape[-2] < HEAD_LOOP_PAIRS:
        _fill(w, q * scale, k, added)
        return by_group(w, v), w
    maps = to_four(w)
    return _head_by_head(q, k, v, added, scale, lambda b, h, rows: maps[b, h, rows], lambda b, rows, part: None), w


def _mean(q: Tensor, k: Tensor, v: Tensor, added: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """Output and the mean over heads, without the map of every head ever standing whole."""
    if q.shape[-2] * k.shape[-2] < HEAD_LOOP_PAIRS:
        out, maps = _in_place(q, k, v, added, scale)
        return out, maps.mean(-3)
    heads, size = q.shape[-3], k.shape[-2]
    mean = pages.large(q.new_empty(*q.shape[:-3], q.shape[-2], size)).zero_()
    means, buffer = mean.view(-1, q.shape[-2], size), q.new_empty(ROW_BLOCK, size)

    def add(b: int, rows: slice, part: Tensor) -> None:
        means[b, rows].add_(part, alpha=1 / heads)

    out = _head_by_head(q, k, v, added, scale, lambda b, h, rows: buffer[: rows.stop - rows.start], add)
    return out, mean


def _head_by_head(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    added: Tensor | None,
    scale: float,
    buffer: Callable[[int, int, slice], Tensor],
    done: Callable[[int, slice, Tensor], None],
) -> Tensor:
    """The output; the weights of some rows of a head at a time go into the buffer given for them, then to `done`."""
    out = torch.empty_like(q) if q.shape[-1] == v.shape[-1] else q.new_empty(*q.shape[:-1], v.shape[-1])
    outs, queries, values = to_four(out), to_four(q), to_four(v)
    keys, group = to_four(k).transpose(-1, -2), queries.shape[1] // values.shape[1]
    tables = None if added is None else table_to_four(added, q.shape[:-3])
    for b in range(queries.shape[0]):
        for h in range(queries.shape[1]):
            scaled, k_t, values_h = queries[b, h] * scale, keys[b, h // group], values[b, h // group]
            table = None if tables is None else tables[b if len(tables) > 1 else 0, h if tables.shape[1] > 1 else 0]
            for start in range(0, len(scaled), ROW_BLOCK):
                rows = slice(start, min(start + ROW_BLOCK, len(scaled)))
                w = buffer(b, h, rows)
                _fill_rows(w, scaled[rows], k_t, table if table is None or len(table) == 1 else table[rows])
                torch.mm(w, values_h, out=outs[b, h, rows])
                done(b, rows, w)
    return out


def _fill(w: Tensor, scaled: Tensor, k: Tensor, added: Tensor | None) -> None:
    """The weights of the (scaled) queries, written into w."""
    if k.dim() > 2 and k.shape[-3] != scaled.shape[-3]:
        groups = k.shape[-3]
        w, scaled, k = w.unflatten(-3, (groups, -1)), scaled.unflatten(-3, (groups, -1)), k.unsqueeze(-3)
        if added is not None:
            added = added.expand(*(1,) * (w.dim() - 1 - added.dim()), *added.shape)
            added = added.unflatten(-3, (groups, -1)) if added.shape[-3] > 1 else added.unsqueeze(-3)
    _fill_rows(w, scaled, k.transpose(-1, -2), added)


def _fill_rows(w: Tensor, scaled: Tensor, k_t: Tensor, added: Tensor | None) -> None:
    torch.matmul(scaled, k_t, out=w)
    if added is not None:
        w += added
    if w.shape[-1]:
        torch.softmax(w, -1, out=w)
    if added is not None and (empty := added.isneginf().all(-1, keepdim=True)).any():
        w.masked_fill_(empty, 0.0)


class _Weighed(torch.autograd.Function):
    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, added: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
        return _in_place(q, k, v, added, scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        q, k, v, _, ctx.scale = inputs
        ctx.save_for_backward(q, k, v, output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor | None, d_maps: Tensor | None) -> tuple[Tensor | None, ...]:
        # Written in differentiable steps, with the saved weights an output of this function: so it can be
        # differentiated again.
        q, k, v, w = ctx.saved_tensors
        groups = k.shape[-3] if k.dim() > 2 else None
        dv = None
        dp = d_maps
        if d_out is not None:
            dv = _sum_groups(w.transpose(-1, -2) @ d_out, groups)
            dp = by_group(d_out, v.transpose(-1, -2))
            dp = dp if d_maps is None else dp + d_maps
        if dp is None:
            return None, None, None, None, None
        ds = w * (dp - (dp * w).sum(-1, keepdim=True)) * ctx.scale
        return by_group(ds, k), _sum_groups(ds.transpose(-1, -2) @ q, groups), dv, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, q: Tensor, k: Tensor, v: Tensor, added: Tensor | None, scale: float) -> Any:
        (q, k, v), added = leading(info, in_dims, (q, k, v), added)
        return _Weighed.apply(q, k, v, added, scale), (0, 0)  # type: ignore[no-untyped-call]


_apply = eager(_Weighed)


def _sum_groups(x: Tensor, groups: int | None) -> Tensor:
    """(..., H, s, d) summed over the query heads that a key/value head serves."""
    return x if groups is None or x.shape[-3] == groups else x.unflatten(-3, (groups, -1)).sum(-3)
