"""Attention with log-sum-exp on devices other than the CPU, with the arguments and results of torch's CPU operators.

On CUDA, torch's fused operators return the log-sum-exp (`private_torch_operators.fused_forward`). Everywhere else, and
for every gradient, a few rows are computed at a time, over all their keys:

    S = scale·q·kᵀ + mask      P = exp(S − lse)      o = P v
    dV += Pᵀ dO      dS = P ∘ (dO Vᵀ − rowsum(dO ∘ O))      dQ = scale · dS K      dK += scale · dSᵀ Q

Memory is linear in length: the scores of ROWS queries take as much as keys of width ROWS. Heads that share keys are
rows of one matrix product, so the keys are not copied for each of them. The log-sum-exp of an empty row is 0 here.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.kernels.private_torch_operators import fused_forward

ROWS = 64

Queries = Float[Tensor, "b h l d"]
Keys = Float[Tensor, "b g s d"]
Mask = Float[Tensor, "#b #h l s"]


def forward(
    q: Queries, k: Keys, v: Keys, dropout: float, causal: bool, *, attn_mask: Mask | None, scale: float
) -> tuple[Queries, Float[Tensor, "b h l"]]:
    """Return output and log-sum-exp; `causal` aligns the first query with the first key, and `dropout` is ignored."""
    fused = fused_forward(q, k, v, attn_mask, causal, scale)
    if fused is not None:
        out, lse = fused
        if attn_mask is not None:
            empty = attn_mask.isneginf().all(-1)
            out, lse = out.masked_fill(empty[..., None], 0.0), lse.masked_fill(empty, 0.0)
        return out, lse
    dtype = torch.promote_types(q.dtype, torch.float32)
    k_t, values = k.to(dtype).transpose(-1, -2), v.to(dtype)
    out, lse = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=dtype)
    for rows in _row_blocks(q):
        scores = _scores(q, k_t, rows, causal, attn_mask, scale)
        largest = scores.amax(-1, keepdim=True)
        largest = largest.masked_fill_(largest.isneginf(), 0.0)  # an empty row, in which −inf − −inf would be NaN
        e = scores.sub_(largest).exp_()
        total = e.sum(-1, keepdim=True)
        empty = total == 0
        total.masked_fill_(empty, 1.0)
        lse[:, :, rows] = (largest + total.log())[..., 0]
        out[:, :, rows] = _times(e.div_(total), values[:, :, : e.shape[-1]]).to(q.dtype)
    return out, lse


def backward(
    grad: Queries,
    q: Queries,
    k: Keys,
    v: Keys,
    out: Queries,
    lse: Float[Tensor, "b h l"],
    dropout: float,
    causal: bool,
    *,
    attn_mask: Mask | None,
    scale: float,
) -> tuple[Queries, Keys, Keys]:
    """Return the gradients of q, k and v. The keys may be some of those that `out` and `lse` were computed from."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    keys, values = k.to(dtype), v.to(dtype)
    k_t, v_t = keys.transpose(-1, -2), values.transpose(-1, -2)
    dq, dk, dv = torch.empty_like(q), torch.zeros_like(keys), torch.zeros_like(values)
    for rows in _row_blocks(q):
        p = _scores(q, k_t, rows, causal, attn_mask, scale).sub_(lse[:, :, rows, None]).exp_()
        visible = p.shape[-1]
        d_out = grad[:, :, rows].to(dtype)
        mean = (d_out * out[:, :, rows]).sum(-1, keepdim=True)
        ds = _times(d_out, v_t[..., :visible]).sub_(mean).mul_(p)
        dq[:, :, rows] = _times(ds, keys[:, :, :visible]).mul_(scale).to(q.dtype)
        dk[:, :, :visible] += _fold(ds, k).transpose(-1, -2) @ _fold(q[:, :, rows].to(dtype) * scale, k)
        dv[:, :, :visible] += _fold(p, k).transpose(-1, -2) @ _fold(d_out, k)
    return dq, dk.to(k.dtype), dv.to(v.dtype)


def _row_blocks(q: Tensor) -> list[slice]:
    length = q.shape[2]
    return [slice(start, min(start + ROWS, length)) for start in range(0, length, ROWS)]


def _scores(q: Tensor, k_t: Tensor, rows: slice, causal: bool, added: Tensor | None, scale: float) -> Tensor:
    """Return the scores (b, h, rows, keys) of some rows; under a causal mask over the keys up to the last row."""
    keys = min(rows.stop, k_t.shape[-1]) if causal else k_t.shape[-1]
    scores = _times(q[:, :, rows].to(k_t.dtype) * scale, k_t[..., :keys])
    if added is not None:
        scores += added[:, :, rows, :keys]
    if causal:
        own = torch.arange(rows.start, rows.stop, device=q.device)[:, None]
        scores.masked_fill_(torch.arange(keys, device=q.device) > own, float("-inf"))
    return scores


def _fold(x: Float[Tensor, "b h r m"], k: Float[Tensor, "b g s d"]) -> Float[Tensor, "b g n m"]:
    """Return x with the heads that share keys as rows of one matrix."""
    return x.reshape(x.shape[0], k.shape[1], -1, x.shape[-1])


def _times(x: Float[Tensor, "b h r m"], y: Float[Tensor, "b g m p"]) -> Float[Tensor, "b h r p"]:
    return (_fold(x, y) @ y).view(*x.shape[:3], y.shape[-1])
