"""Readers of attention functions: each converts the arguments of one function into a `Call`.

| function | called by |
|---|---|
| `F.scaled_dot_product_attention` | any code: Hugging Face with "sdpa", x-transformers with flash, torch's layers |
| `torch._native_multi_head_attention` | nn.MultiheadAttention on its fast path; q and k are not visible |
| `torch._transformer_encoder_layer_fwd` | nn.TransformerEncoderLayer on its fast path; q and k are not visible |
| `regard.attend` | the layers of regard |
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention import Mask, masks
from regard.attention.masks.shifted import shift_mask
from regard.watching.call import Call
from regard.watching.call_inputs import tensor_versions


def from_sdpa(
    name: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Call:
    """Read a call of torch's fused attention. In its boolean masks True = visible; causal is aligned at the start."""
    q, k = _to_rank_4(query), _to_rank_4(key)
    mask = shift_mask(masks.causal(), queries=q.shape[2] - k.shape[2], keys=0) if is_causal else None
    bias, is_mask = _mask_to_bias(attn_mask)
    return _call(name, "scaled_dot_product_attention", q, k, mask, bias, is_mask, scale, dropout_p)


def from_attend(name: str, arguments: dict[str, Any]) -> Call:
    """Read a call of `regard.attend` from its arguments by name."""
    q, k, mask, bias = _to_rank_4(arguments["q"]), _to_rank_4(arguments["k"]), arguments["mask"], arguments["bias"]
    added, is_mask = _mask_to_bias(mask if isinstance(mask, Tensor) else None)
    if bias is not None:
        table = bias if isinstance(bias, Tensor) else _table_of_bias_rule(bias, q, k)
        added, is_mask = table if added is None else table + added, False
        added = added[(None,) * (4 - added.dim())]
    rule = mask if isinstance(mask, Mask) else None
    return _call(name, "regard.attend", q, k, rule, added, is_mask, arguments["scale"], arguments["dropout"])


def from_native_mha(
    name: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Call:
    """Read nn.MultiheadAttention in inference, one kernel from input to output. **True = ignore** in its masks."""
    kernel = "native multi-head attention"
    return _call_from_input(name, kernel, query, lambda: query, num_head, qkv_weight, qkv_bias, mask, mask_type)


def from_encoder_layer(
    name: str,
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    *rest: Any,
    **named: Any,
) -> Call:
    """Read nn.TransformerEncoderLayer in inference, where the whole layer is one kernel."""
    mask = named.get("mask", rest[6] if len(rest) > 6 else None)
    mask_type = named.get("mask_type", rest[7] if len(rest) > 7 else None)

    def attention_input() -> Tensor:
        return F.layer_norm(src, (embed_dim,), norm_weight_1, norm_bias_1, eps) if norm_first else src

    path, kernel = f"{name}.self_attn" if name else "self_attn", "native encoder layer"
    return _call_from_input(path, kernel, src, attention_input, num_heads, qkv_weight, qkv_bias, mask, mask_type)


def _call_from_input(
    name: str,
    kernel: str,
    x: Tensor,
    attention_input: Callable[[], Tensor],
    heads: int,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    mask_type: int | None,
) -> Call:
    """Return a call of a kernel that shows only its input; q and k are projected again when they are needed."""
    lengths = [item.shape[0] for item in x.unbind()] if x.is_nested else None
    batch, length = (x.shape[0], x.shape[1]) if lengths is None else (len(lengths), max(lengths))
    d_model = weight.shape[1]
    versions = tensor_versions(x, weight)

    def project() -> tuple[Tensor, Tensor]:
        if tensor_versions(x, weight) != versions:
            raise RuntimeError(
                f"the input or the weights of {name!r} were changed in place after the call, so its queries and keys "
                "are no longer known; watch with keep='statistics' or keep='copies'"
            )
        with torch.no_grad():
            tokens = attention_input()
            tokens = torch.nested.to_padded_tensor(tokens, 0.0) if x.is_nested else tokens
            qk = F.linear(tokens, weight[: 2 * d_model], bias[: 2 * d_model])
            q, k = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qk.chunk(2, -1))
        return q, k

    visible_or_bias = mask
    if mask is not None:
        if not mask.dtype.is_floating_point:
            visible_or_bias = ~mask if mask.dtype == torch.bool else mask == 0
        if mask_type == 1 and mask.dim() == 2 and visible_or_bias is not None:  # padding, (B, S)
            visible_or_bias = visible_or_bias[:, None, None]
    added, is_mask = _mask_to_bias(visible_or_bias)
    return Call(
        name=name,
        kernel=kernel,
        shape=(batch, heads, length, length),
        scale=(d_model // heads) ** -0.5,
        queries=project,
        mask=None if lengths is None else masks.padding(lengths),
        bias=added,
        bias_is_mask=is_mask,
    )


def _call(
    name: str,
    kernel: str,
    q: Float[Tensor, "batch heads queries d_k"],
    k: Float[Tensor, "batch kv_heads keys d_k"],
    mask: Mask | None,
    bias: Tensor | None,
    bias_is_mask: bool,
    scale: float | None,
    dropout: float,
) -> Call:
    return Call(
        name=name,
        kernel=kernel,
        shape=(q.shape[0], q.shape[1], q.shape[2], k.shape[2]),
        scale=q.shape[-1] ** -0.5 if scale is None else float(scale),
        queries=q.detach(),
        keys=k.detach(),
        mask=mask,
        bias=bias,
        bias_is_mask=bias_is_mask,
        dropout=dropout,
        versions=tensor_versions(q, k),
    )


def _to_rank_4(x: Tensor) -> Tensor:
    """Return (..., a, b, c) as (n, a, b, c); missing dimensions become 1."""
    if x.dim() == 4:
        return x
    return x.reshape(-1, *x.shape[-3:]) if x.dim() > 4 else x[(None,) * (4 - x.dim())]


def _mask_to_bias(mask: Tensor | None) -> tuple[Tensor | None, bool]:
    """Return a mask tensor, True = visible or numbers to add, as a bias of rank 4, and whether it only hides."""
    if mask is None:
        return None, False
    mask = _to_rank_4(mask.detach())
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, float("-inf")), True
    return mask, False


def _table_of_bias_rule(bias: Any, q: Tensor, k: Tensor) -> Float[Tensor, "1 heads queries keys"]:
    """Return the values of a computed bias such as ALiBi for every head, query and key."""
    heads = torch.arange(q.shape[1], device=q.device)[:, None, None]
    position = torch.arange(k.shape[2] - q.shape[2], k.shape[2], device=q.device)[:, None]
    values: Tensor = bias.values(heads, position - torch.arange(k.shape[2], device=q.device))
    return values[None]
