"""`attend`: scaled dot-product attention in torch, on a fused kernel.

    out = softmax(scale · q kᵀ + bias, over visible keys) v            scale = 1/√d_k by default

With softcap or a score function the scores change before softmax, which no fused kernel computes: blocks of rows are
computed in matrix products instead (kernels/changed_scores/), with memory linear in length too.

On the CPU attention runs on torch's flash kernel, tile by tile, and skips blocks that a mask hides
(kernels/block_plan.py, kernels/tiled_attention.py). On other devices it runs on `F.scaled_dot_product_attention`, on
whole inputs or on blocks of rows (kernels/device_attention.py), and inside torch.compile on that function too. The L×S
matrix of weights is built only if weights are requested, or dropout on the CPU, where torch has no fused dropout.

An empty row (a query that sees no key) has zero output, zero weights and zero gradient. NaN in an input is propagated
to every output that it contributes to, also from hidden keys and values (0 · NaN is NaN).
"""

from typing import Any, Literal, NamedTuple, overload

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.argument_checks import check_bias, check_dropout, check_inputs, check_mask, check_scale
from regard.attention.kernels.additive_mask import BiasRule, additive_mask, hide, mask_tensor
from regard.attention.kernels.autograd import TileCall, flash_attention
from regard.attention.kernels.block_plan import DENSE_BELOW, choose_plan
from regard.attention.kernels.changed_scores.row_blocks import attend_with_change
from regard.attention.kernels.changed_scores.score_change import ScoreChange, ScoreFunction, score_change
from regard.attention.kernels.device_attention import attend_on_device, sdpa
from regard.attention.kernels.materialized_weights import attend_by_formula, attend_with_weights
from regard.attention.kernels.private_torch_operators import (
    GRAPH_HAS_FLOAT64,
    in_compile,
    in_forward_mode,
    in_func_transform,
    in_graph,
    in_jit_trace,
)
from regard.attention.kernels.shape_4d import equal_widths
from regard.attention.kernels.torch_compile_operator import attend_compiled
from regard.attention.listeners import call_listeners, changed_result, listeners_muted, report_call
from regard.attention.masks import Mask
from regard.attention.masks.causal_and_window import Causal
from regard.attention.masks.custom import split_boolean_tables
from regard.attention.masks.mask import And

BiasLike = Tensor | BiasRule
MaskLike = Mask | Bool[Tensor, "..."]
Result = tuple[Tensor, Tensor | None, Tensor | None]  # output, log-sum-exp if requested, weights if requested


@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: MaskLike | None = None, *, bias: BiasLike | None = None,
    scale: float | None = None, dropout: float = 0.0, softcap: float | None = None,
    score_mod: ScoreFunction | None = None, weights: Literal[False] = False,
) -> Tensor: ...  # fmt: skip
@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: MaskLike | None = None, *, bias: BiasLike | None = None,
    scale: float | None = None, dropout: float = 0.0, softcap: float | None = None,
    score_mod: ScoreFunction | None = None, weights: Literal[True, "mean"],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: MaskLike | None = None, *, bias: BiasLike | None = None,
    scale: float | None = None, dropout: float = 0.0, softcap: float | None = None,
    score_mod: ScoreFunction | None = None, weights: bool | Literal["mean"],
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
    softcap: float | None = None,
    score_mod: ScoreFunction | None = None,
    weights: bool | Literal["mean"] = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the attention (..., H, L, d_v) of q (..., H, L, d_k) over k (..., H_kv, S, d_k) and v (..., H_kv, S, d_v).

    mask        a mask of `regard.masks` or a boolean tensor that broadcasts to (..., H, L, S); **True = visible**
    bias        added to the scaled scores; a tensor that broadcasts to (..., H, L, S), or `Alibi`
    scale       factor of the scores, any finite number; 1/√d_k by default
    dropout     probability with which a weight is dropped; it applies in training and in evaluation
    softcap     c > 0: a scaled score s becomes c · tanh(s / c), before the bias is added
    score_mod   function (score, b, h, q_idx, k_idx) of the scores after scale, softcap and bias, that returns the new
                scores. As in FlexAttention, indices count from 0; here they are tensors that broadcast to the scores.
                Hidden pairs stay hidden. Tensors that the function uses receive gradients
    weights     True: also return the weights (..., H, L, S) of each head, before dropout;
                "mean": their mean over heads (..., L, S), without holding the weights of every head

    H may be a multiple of H_kv: each key/value head then serves H / H_kv consecutive query heads (grouped heads).
    Causal masks are aligned at the end: the last query sees every key, for any L and S.

    >>> import torch
    >>> from regard import masks
    >>> v = torch.arange(3.0).reshape(1, 3, 1)                  # one head, three keys, d_k = 1
    >>> attend(torch.zeros(1, 3, 1), torch.zeros(1, 3, 1), v, masks.causal()).flatten()
    tensor([0.0000, 0.5000, 1.0000])
    """
    out, _, maps = _attend(q, k, v, mask, bias, scale, dropout, score_change(softcap, score_mod), weights, False)
    return out if maps is None else (out, maps)


class WithLse(NamedTuple):
    """Result of `attend_with_lse`.

    output      attention (..., H, L, d_v)
    lse         logarithm of the sum of exponentials of each row of scores, (..., H, L)

    >>> attend_with_lse(torch.zeros(1, 2, 4), torch.zeros(1, 3, 4), torch.ones(1, 3, 4)).lse.exp()
    tensor([[3., 3.]])
    """

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
    softcap: float | None = None,
    score_mod: ScoreFunction | None = None,
) -> WithLse:
    """Return attention and the log-sum-exp of each row of scores, both differentiable; −inf for an empty row.

    q, k, v             (..., H, L, d_k), (..., H_kv, S, d_k) and (..., H_kv, S, d_v)
    mask, bias, scale   as for `attend`
    softcap, score_mod  as for `attend`

    The weight of any pair is exp(scale · q·k + bias − lse), so any part of the weights can be computed later
    without the rest, and attention over two sets of keys can be merged into attention over both.

    >>> import torch
    >>> q = torch.zeros(1, 1, 2, 4)
    >>> attend_with_lse(q, q, q).lse.exp()             # two keys with score 0: e⁰ + e⁰
    tensor([[[2., 2.]]])
    """
    out, lse, _ = _attend(q, k, v, mask, bias, scale, 0.0, score_change(softcap, score_mod), False, True)
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
    change: ScoreChange | None,
    weights: bool | Literal["mean"],
    lse: bool,
) -> Result:
    """Check the arguments, then compute attention by the first implementation that supports them.

    Mask and bias become a `rule`, from which the tiles are planned, and a `table`, a tensor that is added to the
    scores: the bias, and −inf where a boolean tensor hides a pair. A pair is visible if neither of them hides it.
    """
    if call_listeners and not listeners_muted.depth:
        return _notify_and_attend(q, k, v, mask, bias, scale, dropout, change, weights, lse)
    if not _is_standard(q, k, v):
        q, k, v = _autocast(q, k, v)
        check_inputs(q, k, v)
        if q.dim() == 1:
            out, row_lse, maps = _attend(q[None], k, v, mask, bias, scale, dropout, change, weights, lse)
            return out[0], None if row_lse is None else row_lse[0], None if maps is None else maps[0]
        k, v = (x.expand(*q.shape[:-3], *x.shape[-3:]) for x in (k, v))
    scale = _default_scale(q) if scale is None else check_scale(scale, q.dtype)
    forward_mode = in_forward_mode()
    derivative = forward_mode or _requires_grad(q, k, v) or in_func_transform()
    if mask is bias is None and change is None and not (weights or dropout or lse or derivative):
        return _sdpa_without_mask(q, k, v, scale), None, None
    check_dropout(dropout)
    recording = in_graph(q)
    on_cpu = q.is_cpu and not recording  # whether the CPU kernels can be called
    if not (q.is_cpu or recording or weights or forward_mode or change):
        return *_on_device(q, k, v, mask, bias, scale, dropout, lse), None
    rule, visible = _split_mask(mask, q, k, on_cpu)
    table, bias_rule = _split_bias(bias, visible, q, k)
    queries, keys, width = q.shape[-2], k.shape[-2], v.shape[-1]
    if weights or dropout:
        added = additive_mask(q, k, rule, table, bias_rule)
        out, maps = attend_with_weights(q, k, v, added, scale, change=change, dropout=dropout, weights=weights)
        return out, None, maps
    if change is not None:
        return *attend_with_change(q, k, v, rule, table, bias_rule, scale, change), None
    # The CPU kernel does not handle 0 keys and has no gradient of the mask; in a recorded graph there are no tiles.
    mask_gradient = table is not None and table.requires_grad and torch.is_grad_enabled()
    wrong_graph = q.dtype == torch.float64 and q.is_cpu and not (on_cpu or GRAPH_HAS_FLOAT64)
    if q.numel() == 0 or k.numel() == 0 or (lse and not on_cpu) or mask_gradient or forward_mode or wrong_graph:
        return *attend_by_formula(q, k, v, additive_mask(q, k, rule, table, bias_rule), scale), None
    if on_cpu:
        call = TileCall(choose_plan(rule, queries, keys, bias=bias_rule), rule, bias_rule, scale, lse)
        out, row_lse = flash_attention(*equal_widths(q, k, v), table, call)
        return (out if out.shape[-1] == width else out[..., :width]), (row_lse if lse else None), None
    if isinstance(rule, Causal) and queries == keys and table is None and bias_rule is None:
        # torch's own causal flag, which aligns at the start, replaces the mask.
        return sdpa(q, k, v, scale, is_causal=True), None, None
    tiled = in_compile() and q.is_cpu and rule is not None and rule.parseable and bias_rule is None
    if tiled and rule is not None and queries * keys > DENSE_BELOW:
        # Under torch.compile on the CPU all tiles are one operator, which takes the mask as text (its repr).
        return attend_compiled(*equal_widths(q, k, v), table, rule, scale)[..., :width], None, None
    return sdpa(q, k, v, scale, additive_mask(q, k, rule, table, bias_rule)), None, None


def _on_device(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: MaskLike | None,
    bias: BiasLike | None,
    scale: float,
    dropout: float,
    lse: bool,
) -> tuple[Tensor, Tensor | None]:
    """Compute attention on a device other than the CPU, without weights."""
    rule, visible = None, None
    if isinstance(mask, Mask):
        heads = q.shape[-3] if q.dim() > 2 else 1
        mask.check(q.shape[:-3].numel(), heads, q.shape[-2], k.shape[-2])
        rule = mask
    elif mask is not None:
        check_mask(mask, q, k)
        visible = mask
    table, bias_rule = _split_bias(bias, None, q, k)
    return attend_on_device(q, k, v, visible, rule, table, bias_rule, scale, dropout=dropout, lse=lse)


def _sdpa_without_mask(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Compute attention without mask, bias, dropout or weights, with as little overhead as torch's own function."""
    if v.shape[-1] != q.shape[-1] and q.is_cpu:
        return sdpa(*equal_widths(q, k, v), scale)[..., : v.shape[-1]]
    return sdpa(q, k, v, scale)


def _notify_and_attend(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Result:
    names = ("mask", "bias", "scale", "dropout", "change", "weights", "want_lse")
    arguments = {"q": q, "k": k, "v": v, **dict(zip(names, rest, strict=True))}
    changed: Result | None = changed_result(lambda: _attend(q, k, v, *rest)[0], **arguments)
    if changed is not None:
        return changed
    with listeners_muted:
        result = _attend(q, k, v, *rest)
    report_call(**arguments, output=result[0])
    return result


def _is_standard(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Return whether q, k and v can be used without further checks, conversion or expansion of their shapes."""
    return (
        isinstance(q, Tensor)
        and q.dtype.is_floating_point
        and q.dtype == k.dtype == v.dtype
        and q.dim() == k.dim() >= 3
        and k.shape[:-1] == v.shape[:-1]
        and q.shape[:-2] == k.shape[:-2]
        and q.shape[-1] == k.shape[-1]
        and q.device == k.device == v.device
        and not _autocast_enabled(q)
    )


def _default_scale(q: Tensor) -> float:
    width = int(q.shape[-1]) if in_jit_trace() else q.shape[-1]  # torch.jit.trace makes tensors of sizes
    return max(width, 1) ** -0.5


def _requires_grad(q: Tensor, k: Tensor, v: Tensor) -> bool:
    return torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)


def _autocast_enabled(q: Tensor) -> bool:
    return not q.is_meta and torch.is_autocast_enabled(q.device.type)  # torch raises an error for "meta"


def _autocast(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Under autocast, convert q, k and v to the autocast dtype, as torch's own attention does."""
    if not isinstance(q, Tensor) or not _autocast_enabled(q):
        return q, k, v
    dtype = torch.get_autocast_dtype(q.device.type)
    q, k, v = (x.to(dtype) if x.dtype in (torch.float32, torch.float16, torch.bfloat16) else x for x in (q, k, v))
    return q, k, v


def _split_mask(mask: MaskLike | None, q: Tensor, k: Tensor, on_cpu: bool) -> tuple[Mask | None, Tensor | None]:
    """Split a mask into a rule from which blocks are planned, and a boolean tensor of all other parts."""
    if mask is None:
        return None, None
    if not isinstance(mask, Mask):
        check_mask(mask, q, k)
        return None, mask
    heads, queries, keys = q.shape[-3] if q.dim() > 2 else 1, q.shape[-2], k.shape[-2]
    mask.check(q.shape[:-3].numel(), heads, queries, keys)
    if not on_cpu or in_func_transform():
        # torch.compile and torch.func cannot read the values of a mask that holds tensors, which a plan requires.
        return (mask, None) if mask.parseable else (None, mask_tensor(mask, q, k))
    rule, tables = split_boolean_tables(mask)
    return rule, mask_tensor(And(tables), q, k) if tables else None


def _split_bias(
    bias: BiasLike | None, visible: Tensor | None, q: Tensor, k: Tensor
) -> tuple[Float[Tensor, "..."] | None, BiasRule | None]:
    """Return the tensor added to the scores (−inf where not visible), and a bias that tiles compute, as ALiBi."""
    table = None
    if isinstance(bias, Tensor):
        check_bias(bias, q, k)
        table = bias.to(q.dtype)
    elif bias is not None and bias.heads != (heads := q.shape[-3] if q.dim() > 2 else 1):
        raise ValueError(f"the bias {bias!r} is for {bias.heads} heads, but q has {heads}; use heads={heads}")
    if visible is not None:
        table = hide(table, visible, q)
    return table, None if isinstance(bias, Tensor) else bias
