"""Attention with materialized weights, as `weights=True` returns them.

    W = softmax(scale · q kᵀ + added)        out = W v

Scores, exponentials and weights share one buffer in huge pages, so W is written once. Backward, with the gradients dO
of the output and dW of the weights,

    dP = dO vᵀ + dW        dS = W ∘ (dP − rowsum(dP ∘ W))        dq = scale · dS k     dk = scale · dSᵀ q     dv = Wᵀ dO
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention.kernels.changed_scores.score_change import ScoreChange
from regard.attention.kernels.huge_pages import use_huge_pages
from regard.attention.kernels.private_torch_operators import in_forward_mode, in_func_transform, in_graph
from regard.attention.kernels.shape_4d import table_to_4d, to_4d
from regard.attention.kernels.vmap import apply_without_transforms, move_batch_first

HEAD_LOOP_PAIRS = 128 * 128  # number of pairs from which heads are computed one by one, so that each fits the cache
ROW_BLOCK = 512  # rows of a head that are computed at a time

Weights = Float[Tensor, "... l s"]


def attend_with_weights(
    q: Float[Tensor, "... l d_k"],
    k: Float[Tensor, "... s d_k"],
    v: Float[Tensor, "... s d_v"],
    added: Float[Tensor, "..."] | None,
    scale: float,
    *,
    change: ScoreChange | None = None,
    dropout: float = 0.0,
    weights: bool | Literal["mean"] = True,
) -> tuple[Float[Tensor, "... l d_v"], Weights | None]:
    """Return the output, and the weights or their mean over heads as `weights` requests."""
    if (
        q.dtype in (torch.float16, torch.bfloat16)
        or dropout
        or change is not None
        or q.device.type != "cpu"
        or in_graph(q)
        or in_forward_mode()
        or (added is not None and added.requires_grad)
    ):
        w, _ = softmax_rows(scores(q, k, added, scale, change))
        out = grouped_matmul(F.dropout(w, dropout) if dropout else w, v.to(w.dtype)).to(q.dtype)
        w = w.to(q.dtype)
    elif in_func_transform():
        out, w = _WithWeights.apply(q, k, v, added, scale)  # type: ignore[no-untyped-call]
    elif torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out, w = _apply(q, k, v, added, scale)
    elif weights == "mean" and q.dim() > 2:
        return _with_mean(q, k, v, added, scale)
    else:
        out, w = _in_one_buffer(q, k, v, added, scale)
    if weights == "mean":
        return out, w.mean(-3) if q.dim() > 2 else w
    return out, w if weights else None


def attend_by_formula(
    q: Tensor, k: Tensor, v: Tensor, added: Tensor | None, scale: float, change: ScoreChange | None = None
) -> tuple[Tensor, Float[Tensor, "..."]]:
    """Return output and log-sum-exp, computed with differentiable operations from the formula of this module."""
    w, lse = softmax_rows(scores(q, k, added, scale, change))
    return grouped_matmul(w, v.to(w.dtype)).to(q.dtype), lse


def scores(
    q: Tensor, k: Tensor, added: Tensor | None, scale: float, change: ScoreChange | None = None
) -> Float[Tensor, "... l s"]:
    """Return the scaled scores, changed by `change`, plus `added`, in float32 or wider; differentiable."""
    s = scaled_scores(q, k, scale)
    if change is None or change.function is None or s.numel() == 0:
        s = s if change is None else change.cap(s)
        return s if added is None else s + added.to(s.dtype)
    table = None if added is None else table_to_4d(added, s.shape[:-3])
    s_4d = to_4d(s)
    at = range(s_4d.shape[0]), slice(0, s_4d.shape[2]), slice(0, s_4d.shape[3])
    return change.apply(s_4d, table, at).reshape(s.shape)


def scaled_scores(q: Tensor, k: Tensor, scale: float) -> Float[Tensor, "... l s"]:
    """Return scale · q kᵀ in float32 or wider; differentiable."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    return grouped_matmul(q.to(dtype) * scale, k.to(dtype).transpose(-1, -2))


def softmax_rows(s: Float[Tensor, "... l s"]) -> tuple[Float[Tensor, "... l s"], Float[Tensor, "... l"]]:
    """Return weights and log-sum-exp of each row, 0 and −inf for an empty row; differentiable."""
    if s.shape[-1] == 0:
        return s, s.sum(-1) - float("inf")
    empty = s.isneginf().all(-1, keepdim=True)
    finite = s.masked_fill(empty, 0.0)
    lse = finite.logsumexp(-1).masked_fill(empty[..., 0], float("-inf"))
    return finite.softmax(-1).masked_fill(empty, 0.0), lse


def grouped_matmul(left: Tensor, right: Tensor) -> Tensor:
    """Return left (..., H, n, m) @ right (..., H_kv, m, p); each right head is used by H / H_kv left heads."""
    if left.dim() < 3 or left.shape[-3] == right.shape[-3]:
        return left @ right
    grouped = left.unflatten(-3, (right.shape[-3], -1)) @ right.unsqueeze(-3)
    return grouped.flatten(-4, -3)


def _in_one_buffer(q: Tensor, k: Tensor, v: Tensor, added: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """Return output and weights; scores, exponentials and weights overwrite each other."""
    w = use_huge_pages(q.new_empty(*q.shape[:-1], k.shape[-2]))
    if q.shape[-2] * k.shape[-2] < HEAD_LOOP_PAIRS:
        _write_weights(w, q * scale, k, added)
        return grouped_matmul(w, v), w
    w_4d = to_4d(w)
    return _loop_over_heads(q, k, v, added, scale, lambda b, h, rows: w_4d[b, h, rows]), w


def _with_mean(q: Tensor, k: Tensor, v: Tensor, added: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """Return output and the mean of the weights over heads, without holding the weights of every head."""
    if q.shape[-2] * k.shape[-2] < HEAD_LOOP_PAIRS:
        out, w = _in_one_buffer(q, k, v, added, scale)
        return out, w.mean(-3)
    heads, size = q.shape[-3], k.shape[-2]
    mean = use_huge_pages(q.new_empty(*q.shape[:-3], q.shape[-2], size)).zero_()
    means, buffer = mean.view(-1, q.shape[-2], size), q.new_empty(ROW_BLOCK, size)

    def add(b: int, rows: slice, w: Tensor) -> None:
        means[b, rows].add_(w, alpha=1 / heads)

    return _loop_over_heads(q, k, v, added, scale, lambda b, h, rows: buffer[: rows.stop - rows.start], add), mean


def _loop_over_heads(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    added: Tensor | None,
    scale: float,
    buffer: Callable[[int, int, slice], Tensor],
    consume: Callable[[int, slice, Tensor], None] | None = None,
) -> Tensor:
    """Return the output. The weights of each block of rows are written to `buffer(…)`, then passed to `consume`."""
    out = torch.empty_like(q) if q.shape[-1] == v.shape[-1] else q.new_empty(*q.shape[:-1], v.shape[-1])
    outs, queries, values = to_4d(out), to_4d(q), to_4d(v)
    keys, group = to_4d(k).transpose(-1, -2), queries.shape[1] // values.shape[1]
    tables = None if added is None else table_to_4d(added, q.shape[:-3])
    for b in range(queries.shape[0]):
        for h in range(queries.shape[1]):
            scaled, k_t, v_h = queries[b, h] * scale, keys[b, h // group], values[b, h // group]
            table = None if tables is None else tables[b if len(tables) > 1 else 0, h if tables.shape[1] > 1 else 0]
            for start in range(0, len(scaled), ROW_BLOCK):
                rows = slice(start, min(start + ROW_BLOCK, len(scaled)))
                w = buffer(b, h, rows)
                _write_rows(w, scaled[rows], k_t, table if table is None or len(table) == 1 else table[rows])
                torch.mm(w, v_h, out=outs[b, h, rows])
                if consume is not None:
                    consume(b, rows, w)
    return out


def _write_weights(w: Tensor, scaled: Tensor, k: Tensor, added: Tensor | None) -> None:
    """Write the weights of the scaled queries to w."""
    if k.dim() > 2 and k.shape[-3] != scaled.shape[-3]:
        groups = k.shape[-3]
        w, scaled, k = w.unflatten(-3, (groups, -1)), scaled.unflatten(-3, (groups, -1)), k.unsqueeze(-3)
        if added is not None:
            added = added.expand(*(1,) * (w.dim() - 1 - added.dim()), *added.shape)
            added = added.unflatten(-3, (groups, -1)) if added.shape[-3] > 1 else added.unsqueeze(-3)
    _write_rows(w, scaled, k.transpose(-1, -2), added)


def _write_rows(w: Tensor, scaled: Tensor, k_t: Tensor, added: Tensor | None) -> None:
    torch.matmul(scaled, k_t, out=w)
    if added is not None:
        w += added
    if w.shape[-1]:
        torch.softmax(w, -1, out=w)
    if added is not None and (empty := added.isneginf().all(-1, keepdim=True)).any():
        w.masked_fill_(empty, 0.0)


class _WithWeights(torch.autograd.Function):
    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, added: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
        return _in_one_buffer(q, k, v, added, scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        q, k, v, _, ctx.scale = inputs
        ctx.save_for_backward(q, k, v, output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor | None, d_w: Tensor | None) -> tuple[Tensor | None, ...]:
        # These operations are differentiable, and the saved weights are an output of this function:
        # therefore the gradient can be differentiated again.
        q, k, v, w = ctx.saved_tensors
        groups = k.shape[-3] if k.dim() > 2 else None
        dv, dp = None, d_w
        if d_out is not None:
            dv = _sum_groups(w.transpose(-1, -2) @ d_out, groups)
            dp = grouped_matmul(d_out, v.transpose(-1, -2))
            dp = dp if d_w is None else dp + d_w
        if dp is None:
            return None, None, None, None, None
        ds = w * (dp - (dp * w).sum(-1, keepdim=True)) * ctx.scale
        return grouped_matmul(ds, k), _sum_groups(ds.transpose(-1, -2) @ q, groups), dv, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, q: Tensor, k: Tensor, v: Tensor, added: Tensor | None, scale: float) -> Any:
        (q, k, v), added = move_batch_first(info, in_dims, (q, k, v), added)
        return _WithWeights.apply(q, k, v, added, scale), (0, 0)  # type: ignore[no-untyped-call]


_apply = apply_without_transforms(_WithWeights)


def _sum_groups(x: Tensor, groups: int | None) -> Tensor:
    """Return (..., H, s, d) summed over the query heads that share a key/value head."""
    return x if groups is None or x.shape[-3] == groups else x.unflatten(-3, (groups, -1)).sum(-3)
