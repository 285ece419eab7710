"""`attend`: scaled dot-product attention in torch, fused always.

    out = softmax(scale · q kᵀ + bias, over visible keys) v            scale = 1/√d_k unless given

On the CPU it runs on torch's flash kernel, tile by tile where a mask leaves blocks unseen (plan.py, tiles.py);
elsewhere, and inside torch.compile, on `F.scaled_dot_product_attention`. No path builds the L×S matrix of
weights unless weights are asked for, or dropout is (torch has no fused dropout on the CPU).

An empty row (nothing visible) has zero output, zero weights and zero gradient. NaN in an input is passed on:
it reaches every output that the number takes part in, hidden keys and values included (0 · NaN is NaN).
"""

from typing import Any, Literal, NamedTuple, overload

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.attend_checks import check_bias, check_dropout, check_inputs, check_mask
from regard.attention.kernels import tiles
from regard.attention.kernels.autograd import Job, flash, written_out
from regard.attention.kernels.block_plan import DENSE_BELOW, choose_plan
from regard.attention.kernels.compile_op import attend_compiled
from regard.attention.kernels.materialized import by_group, scores, softmax_rows, weigh
from regard.attention.kernels.torch_operators import in_func_transform
from regard.attention.listeners import call_listeners, listeners_muted
from regard.attention.masks import Mask
from regard.attention.masks.bands import Causal
from regard.attention.masks.custom import split_boolean_tables
from regard.attention.masks.mask import And

BiasLike = Tensor | tiles.BiasRule
MaskLike = Mask | Bool[Tensor, "..."]


@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: MaskLike | None = None, *, bias: BiasLike | None = None,
    scale: float | None = None, dropout: float = 0.0, weights: Literal[False] = False,
) -> Tensor: ...  # fmt: skip
@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: MaskLike | None = None, *, bias: BiasLike | None = None,
    scale: float | None = None, dropout: float = 0.0, weights: Literal[True, "mean"],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: MaskLike | None = None, *, bias: BiasLike | None = None,
    scale: float | None = None, dropout: float = 0.0, weights: bool | Literal["mean"],
) -> Tensor | tuple[Tensor, Tensor]: ...  # fmt: skip


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: MaskLike | None = None,
    *,
    bias: BiasLike | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    weights: bool | Literal["mean"] = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of q (..., H, L, d_k) over k (..., H_kv, S, d_k) and v (..., H_kv, S, d_v) → (..., H, L, d_v).

    mask        a rule of `regard.masks` or a boolean tensor that broadcasts to (..., H, L, S); **True = visible**
    bias        added to the scaled scores; a tensor that broadcasts to (..., H, L, S), or `Alibi`
    scale       1/√d_k unless given
    dropout     share of the weights dropped, now, whatever mode a model is in; 0 unless asked for
    weights     True: also return the weights (..., H, L, S), before dropout, one map a head;
                "mean": their mean over heads (..., L, S), without keeping the map of every head

    H may be a multiple of H_kv: each key/value head then serves H / H_kv query heads in turn (grouped heads).
    Causal rules are aligned at the end: the last query sees every key, whatever L and S are.

    >>> import torch
    >>> from regard import masks
    >>> v = torch.arange(3.0).reshape(1, 3, 1)                  # one head, three keys, d_k = 1
    >>> attend(torch.zeros(1, 3, 1), torch.zeros(1, 3, 1), v, masks.causal()).flatten()
    tensor([0.0000, 0.5000, 1.0000])
    """
    out, _, maps = _attend(q, k, v, mask, bias, scale, dropout, weights, False)
    return out if maps is None else (out, maps)


class WithLse(NamedTuple):
    output: Tensor
    lse: Tensor


def attend_with_lse(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: MaskLike | None = None,
    *,
    bias: BiasLike | None = None,
    scale: float | None = None,
) -> WithLse:
    """Attention and the log-sum-exp of each row of scores, both differentiable; −inf for an empty row.

    The weight of any pair is exp(scale · q·k + bias − lse), so any part of the weights can be had later
    without the rest, and attention over two sets of keys can be merged into attention over both.

    >>> import torch
    >>> q = torch.zeros(1, 1, 2, 4)
    >>> attend_with_lse(q, q, q).lse.exp()             # two keys with score 0: e⁰ + e⁰
    tensor([[[2., 2.]]])
    """
    out, lse, _ = _attend(q, k, v, mask, bias, scale, 0.0, False, True)
    assert lse is not None
    return WithLse(out, lse)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: MaskLike | None,
    bias: BiasLike | None,
    scale: float | None,
    dropout: float,
    weights: bool | Literal["mean"],
    want_lse: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Output; log-sum-exp if wanted; weights if wanted."""
    if call_listeners and not listeners_muted.depth:
        return _heard(q, k, v, mask, bias, scale, dropout, weights, want_lse)
    if not _alike(q, k, v):
        q, k, v = _autocast(q, k, v)
        check_inputs(q, k, v)
        if q.dim() == 1:
            found = _attend(q[None], k, v, mask, bias, scale, dropout, weights, want_lse)
            out, lse, maps = (x if x is None else x[0] for x in found)
            assert out is not None
            return out, lse, maps
        k, v = (x.expand(*q.shape[:-3], *x.shape[-3:]) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    if mask is bias is None and not (weights or dropout or want_lse or _wants_gradient(q, k, v) or in_func_transform()):
        return _plain(q, k, v, scale), None, None
    check_dropout(dropout)
    rule, seen = _read_mask(mask, q, k)
    table, computed = _read_bias(bias, seen, q, k)

    if weights or dropout:
        added = written_out(q, k, rule, table, computed)
        out, maps = weigh(q, k, v, added, scale, dropout=dropout, weights=weights)
        return out, None, maps
    if _not_for_the_kernel(q, k, table) or (want_lse and _not_here(q)):
        added = written_out(q, k, rule, table, computed)
        maps, lse = softmax_rows(scores(q, k, added, scale))
        return by_group(maps, v.to(maps.dtype)).to(q.dtype), lse, None
    if _not_here(q):
        return _elsewhere(q, k, v, rule, table, computed, scale), None, None
    job = Job(choose_plan(rule, q.shape[-2], k.shape[-2], bias=computed), rule, computed, scale, want_lse)
    width = v.shape[-1]
    out, lse = flash(*_one_width(q, k, v), table, job)
    return (out if out.shape[-1] == width else out[..., :width]), (lse if want_lse else None), None


def _heard(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor | None, Tensor | None]:
    names = ("mask", "bias", "scale", "dropout", "weights", "want_lse")
    with listeners_muted:
        for listener in tuple(call_listeners):
            listener({"q": q, "k": k, "v": v, **dict(zip(names, rest, strict=True))})
        return _attend(q, k, v, *rest)


def _alike(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether the inputs are of the usual kind, with nothing to check, convert or expand."""
    return (
        isinstance(q, Tensor)
        and q.dtype.is_floating_point
        and q.dtype == k.dtype == v.dtype
        and q.dim() == k.dim() >= 3
        and k.shape[:-1] == v.shape[:-1]
        and q.shape[:-2] == k.shape[:-2]
        and q.shape[-1] == k.shape[-1]
        and q.device == k.device == v.device
        and not _autocasting(q)
    )


def _wants_gradient(q: Tensor, k: Tensor, v: Tensor) -> bool:
    return torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)


def _plain(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """The common case, as fast as torch has it."""
    grouped = q.dim() > 2 and q.shape[-3] != k.shape[-3]
    if v.shape[-1] != q.shape[-1] and q.is_cpu:
        return F.scaled_dot_product_attention(*_one_width(q, k, v), scale=scale, enable_gqa=grouped)[..., : v.shape[-1]]
    return F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=grouped)


def _autocasting(q: Tensor) -> bool:
    return not q.is_meta and torch.is_autocast_enabled(q.device.type)  # torch refuses to say it of "meta"


def _autocast(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Under autocast, what torch's own attention does: all three in autocast's dtype."""
    if not isinstance(q, Tensor) or not _autocasting(q):
        return q, k, v
    dtype = torch.get_autocast_dtype(q.device.type)
    q, k, v = (x.to(dtype) if x.dtype in (torch.float32, torch.float16, torch.bfloat16) else x for x in (q, k, v))
    return q, k, v


def _read_mask(mask: MaskLike | None, q: Tensor, k: Tensor) -> tuple[Mask | None, Tensor | None]:
    """The mask as a rule to plan by, and a boolean tensor for what is not a rule; both must show a pair."""
    if mask is None:
        return None, None
    if not isinstance(mask, Mask):
        check_mask(mask, q, k)
        return None, mask
    heads, queries, keys = q.shape[-3] if q.dim() > 2 else 1, q.shape[-2], k.shape[-2]
    mask.check(q.shape[:-3].numel(), heads, queries, keys)
    if in_func_transform() or _not_here(q):
        # Inside a transform the data of a rule may be symbolic: only rules of plain numbers can be planned by.
        return (mask, None) if mask.parseable else (None, _seen(mask, q, k))
    rule, tables = split_boolean_tables(mask)
    return rule, _seen(And(tables), q, k) if tables else None


def _seen(mask: Mask, q: Tensor, k: Tensor) -> Bool[Tensor, "..."]:
    """The mask as a tensor that broadcasts to (..., H, L, S)."""
    seen = mask.tensor(q.shape[-2], k.shape[-2], device=q.device)
    if seen.dim() == 2 or q.dim() == 4:
        return seen
    if q.dim() < 4:
        return seen[0] if q.dim() == 3 else seen[0, 0]
    return seen.reshape(*q.shape[:-3], *seen.shape[1:]) if seen.shape[0] > 1 else seen[0]


def _read_bias(
    bias: BiasLike | None, seen: Tensor | None, q: Tensor, k: Tensor
) -> tuple[Float[Tensor, "..."] | None, tiles.BiasRule | None]:
    """What is added to the scores: as a tensor (−inf where not seen), and as a rule."""
    table = None
    if isinstance(bias, Tensor):
        check_bias(bias, q, k)
        table = bias.to(q.dtype)
    elif bias is not None and bias.heads != (heads := q.shape[-3] if q.dim() > 2 else 1):
        raise ValueError(f"the bias {bias!r} is for {bias.heads} heads, but q has {heads}")
    if seen is not None:
        table = torch.where(
            seen, torch.zeros((), dtype=q.dtype, device=q.device) if table is None else table, float("-inf")
        )
    return table, None if isinstance(bias, Tensor) else bias


def _not_here(q: Tensor) -> bool:
    """Whether our tiles are not for this tensor: another device, or a graph being compiled."""
    return not q.is_cpu or torch.compiler.is_compiling()


def _not_for_the_kernel(q: Tensor, k: Tensor, table: Tensor | None) -> bool:
    """Nothing to compute (the kernel does not stop at 0 keys), or a bias that wants a gradient (it has none)."""
    return q.numel() == 0 or k.numel() == 0 or (table is not None and table.requires_grad and torch.is_grad_enabled())


def _one_width(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The kernel wants d_k = d_v, and likes multiples of 8: zeros at the end change no score and no kept output."""
    if q.shape[-1] == v.shape[-1]:
        return q, k, v
    width = -(-max(q.shape[-1], v.shape[-1]) // 8) * 8
    q, k, v = (x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1])) for x in (q, k, v))
    return q, k, v


def _elsewhere(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rule: Mask | None,
    table: Tensor | None,
    bias: tiles.BiasRule | None,
    scale: float,
) -> Tensor:
    """torch's own choice of kernel, with the mask written out; on the CPU, compiled, our tiles where they skip."""
    grouped = q.dim() > 2 and q.shape[-3] != k.shape[-3]
    square = isinstance(rule, Causal) and q.shape[-2] == k.shape[-2]
    if square and table is None and bias is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=grouped)
    if q.is_cpu and rule is not None and bias is None and rule.parseable and q.shape[-2] * k.shape[-2] > DENSE_BELOW:
        width = v.shape[-1]
        return attend_compiled(*_one_width(q, k, v), table, rule, scale)[..., :width]
    added = written_out(q, k, rule, table, bias)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=added, scale=scale, enable_gqa=grouped)
