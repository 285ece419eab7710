"""How each way of calling attention is read: from the arguments of a torch function to a `Call`.

| function | who calls it |
|---|---|
| `F.scaled_dot_product_attention` | anyone's code: Hugging Face on "sdpa", x-transformers with flash, torch's layers |
| `torch._native_multi_head_attention` | nn.MultiheadAttention on its fast path, which shows its input only |
| `torch._transformer_encoder_layer_fwd` | nn.TransformerEncoderLayer on its fast path, likewise |
| `regard.attend` | our layers |
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import Mask, masks
from regard.attention.masks.shifted import shift_mask
from regard.watching.call import Call, versions_of


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
    """A call of torch's fused attention. Its boolean masks say True = attend; causal is aligned at the start."""
    q, k = _four(query), _four(key)
    rule = None
    if is_causal:
        rule = shift_mask(masks.causal(), queries=q.shape[2] - k.shape[2], keys=0)
    added, is_mask = _added(attn_mask)
    return _call(name, "scaled_dot_product_attention", q, k, rule, added, is_mask, scale, dropout_p)


def from_attend(name: str, said: dict[str, Any]) -> Call:
    """A call of `regard.attend`, with its arguments by name."""
    q, k, mask, bias = _four(said["q"]), _four(said["k"]), said["mask"], said["bias"]
    rule = mask if isinstance(mask, Mask) else None
    added, is_mask = _added(mask if isinstance(mask, Tensor) else None)
    if bias is not None:
        table = bias if isinstance(bias, Tensor) else _written(bias, q, k)
        added, is_mask = table if added is None else table + added, False
        added = added[(None,) * (4 - added.dim())]
    return _call(name, "regard.attend", q, k, rule, added, is_mask, said["scale"], said["dropout"])


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
    """nn.MultiheadAttention in inference: one kernel from input to output. **True = ignore** in its masks."""
    return _rebuilt(
        name,
        "native multi-head attention",
        query,
        lambda: query,
        embed_dim,
        num_head,
        qkv_weight,
        qkv_bias,
        mask,
        mask_type,
    )


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
    """nn.TransformerEncoderLayer in inference: the whole layer is one kernel."""
    mask, mask_type = (
        named.get("mask", rest[6] if len(rest) > 6 else None),
        named.get("mask_type", rest[7] if len(rest) > 7 else None),
    )

    def attended() -> Tensor:
        return F.layer_norm(src, (embed_dim,), norm_weight_1, norm_bias_1, eps) if norm_first else src

    inside = f"{name}.self_attn" if name else "self_attn"
    return _rebuilt(
        inside, "native encoder layer", src, attended, embed_dim, num_heads, qkv_weight, qkv_bias, mask, mask_type
    )


def _rebuilt(
    name: str,
    kernel: str,
    x: Tensor,
    attended: Callable[[], Tensor],
    embed_dim: int,
    heads: int,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    mask_type: int | None,
) -> Call:
    """A call whose kernel shows its input only: queries and keys are projected again when they are asked for."""
    nested = x.is_nested
    lengths = [part.shape[0] for part in x.unbind()] if nested else None
    batch = len(lengths) if lengths is not None else x.shape[0]
    length = max(lengths) if lengths is not None else x.shape[1]
    held = (x, weight)
    versions = versions_of(*held)

    def make() -> tuple[Tensor, Tensor]:
        if versions_of(*held) != versions:
            raise RuntimeError(f"the input or weights of {name!r} were changed in place after the call")
        with torch.no_grad():
            tokens = attended()
            tokens = torch.nested.to_padded_tensor(tokens, 0.0) if nested else tokens
            qk = F.linear(tokens, weight[: 2 * embed_dim], bias[: 2 * embed_dim])
            q, k = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qk.chunk(2, -1))
        return q, k

    rule: Mask | None = masks.padding(lengths) if lengths is not None else None
    added, is_mask = None, False
    if mask is not None:
        hidden = mask if mask.dtype == torch.bool else mask != 0 if not mask.dtype.is_floating_point else None
        if mask_type == 1 and hidden is not None and hidden.dim() == 2:  # padding, (B, S)
            hidden = hidden[:, None, None]
        if hidden is not None:
            added, is_mask = _added(~hidden)
        else:
            added, is_mask = _added(mask)
            if mask_type == 1 and mask.dim() == 2 and added is not None:
                added = mask[:, None, None]
    return Call(
        name=name,
        kernel=kernel,
        shape=(batch, heads, length, length),
        scale=(embed_dim // heads) ** -0.5,
        queries=make,
        keys=make,
        rule=rule,
        added=added,
        added_is_mask=is_mask,
    )


def _call(
    name: str,
    kernel: str,
    q: Tensor,
    k: Tensor,
    rule: Mask | None,
    added: Tensor | None,
    is_mask: bool,
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
        rule=rule,
        added=added,
        added_is_mask=is_mask,
        dropout=dropout,
        versions=versions_of(q, k),
    )


def _four(x: Tensor) -> Tensor:
    """(..., H, L, d) as (B, H, L, d)."""
    if x.dim() == 4:
        return x
    return x.reshape(-1, *x.shape[-3:]) if x.dim() > 4 else x[(None,) * (4 - x.dim())]


def _added(mask: Tensor | None) -> tuple[Tensor | None, bool]:
    """A mask of torch's as numbers to add, of rank 4, and whether it only hides."""
    if mask is None:
        return None, False
    mask = mask.detach()
    mask = mask.reshape(-1, *mask.shape[-3:]) if mask.dim() > 4 else mask[(None,) * (4 - mask.dim())]
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, float("-inf")), True
    return mask, False


def _written(bias: Any, q: Tensor, k: Tensor) -> Tensor:
    heads = torch.arange(q.shape[1], device=q.device)[:, None, None]
    place = torch.arange(k.shape[2] - q.shape[2], k.shape[2], device=q.device)[:, None]
    values: Tensor = bias.values(heads, place - torch.arange(k.shape[2], device=q.device))
    return values[None]
