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
from regard.attention.kernels.shape_4d import table_to_4d, to_4d
from regard.attention.masks.shifted_positions import shift_mask
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
    """Read a call of torch's fused attention: in boolean masks True = visible; is_causal is aligned at the start."""
    mask_lead = () if attn_mask is None else attn_mask.shape[:-2]
    lead = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], mask_lead[:-1])
    heads = query.shape[-3:-2]
    if not enable_gqa:
        heads = torch.broadcast_shapes(heads, key.shape[-3:-2], mask_lead[-1:])
        key = key.expand(*lead, *heads, *key.shape[-2:])
    q = to_4d(query.expand(*lead, *heads, *query.shape[-2:]))
    k = to_4d(key.expand(*lead, *key.shape[-3:]))
    mask = shift_mask(masks.causal(), queries=q.shape[2] - k.shape[2], keys=0) if is_causal else None
    bias, is_mask = _mask_to_bias(None if attn_mask is None else table_to_4d(attn_mask.detach(), lead))
    options = {"mask": mask, "bias": bias, "bias_is_mask": is_mask, "dropout": dropout_p}
    return _call(name, "scaled_dot_product_attention", q, k, scale, **options)


def from_attend(name: str, arguments: dict[str, Any]) -> Call:
    """Read a call of `regard.attend` from its arguments by name."""
    q, k, mask, bias = to_4d(arguments["q"]), to_4d(arguments["k"]), arguments["mask"], arguments["bias"]
    added, is_mask = _mask_to_bias(mask if isinstance(mask, Tensor) else None)
    if bias is not None:
        table = bias if isinstance(bias, Tensor) else _table_of_bias_rule(bias, q, k)
        added, is_mask = table if added is None else table + added, False
        added = added[(None,) * (4 - added.dim())]
    rule, dropout = mask if isinstance(mask, Mask) else None, arguments["dropout"]
    options = {"mask": rule, "bias": added, "bias_is_mask": is_mask, "dropout": dropout}
    return _call(name, "regard.attend", q, k, arguments["scale"], **options)


def from_native_mha(name: str, *args: Any, **kwargs: Any) -> Call:
    """Read nn.MultiheadAttention in inference, one kernel from input to output. **True = ignore** in its masks."""
    arguments = _by_name(torch.ops.aten._native_multi_head_attention, args, kwargs)
    x, heads = arguments["query"], arguments["num_head"]
    return _call_from_input(name, "native multi-head attention", arguments, x, heads, lambda: x)


def from_encoder_layer(name: str, *args: Any, **kwargs: Any) -> Call:
    """Read nn.TransformerEncoderLayer in inference, where the whole layer is one kernel."""
    arguments = _by_name(torch.ops.aten._transformer_encoder_layer_fwd, args, kwargs)
    x, heads = arguments["src"], arguments["num_heads"]

    def attention_input() -> Tensor:
        norm = (arguments[name] for name in ("norm_weight_1", "norm_bias_1", "eps"))
        return F.layer_norm(x, (arguments["embed_dim"],), *norm) if arguments["norm_first"] else x

    path = f"{name}.self_attn" if name else "self_attn"
    return _call_from_input(path, "native encoder layer", arguments, x, heads, attention_input)


def _by_name(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a torch operator by name."""
    return dict(zip((x.name for x in operator.default._schema.arguments), args, strict=False)) | kwargs


def _call_from_input(
    name: str, kernel: str, arguments: dict[str, Any], x: Tensor, heads: int, attention_input: Callable[[], Tensor]
) -> Call:
    """Return a call of a kernel that shows only its input; q and k are projected again when they are needed."""
    lengths = [item.shape[0] for item in x.unbind()] if x.is_nested else None
    batch, length = (x.shape[0], x.shape[1]) if lengths is None else (len(lengths), max(lengths))
    weight, bias, mask = arguments["qkv_weight"], arguments["qkv_bias"], arguments.get("mask")
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

    if mask is not None and not mask.dtype.is_floating_point:
        mask = mask == 0  # True = visible
    if mask is not None and arguments.get("mask_type") == 1 and mask.dim() == 2:  # padding, (B, S)
        mask = mask[:, None, None]
    added, is_mask = _mask_to_bias(mask)
    rule, scale = None if lengths is None else masks.padding(lengths), (d_model // heads) ** -0.5
    options: dict[str, Any] = {"mask": rule, "bias": added, "bias_is_mask": is_mask}
    return Call(name, kernel, (batch, heads, length, length), scale, project, **options)


def _call(name: str, kernel: str, q: Tensor, k: Tensor, scale: float | None, **options: Any) -> Call:
    """Return the call of queries (B, H, L, d_k) and keys (B, H_kv, S, d_k)."""
    shape, factor = (*q.shape[:3], k.shape[2]), q.shape[-1] ** -0.5 if scale is None else float(scale)
    return Call(name, kernel, shape, factor, q.detach(), k.detach(), versions=tensor_versions(q, k), **options)


def _mask_to_bias(mask: Tensor | None) -> tuple[Tensor | None, bool]:
    """Return a mask tensor, True = visible or numbers to add, as a bias of rank 4, and whether it only hides."""
    if mask is None:
        return None, False
    mask = to_4d(mask.detach())
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, float("-inf")), True
    return mask, False


def _table_of_bias_rule(bias: Any, q: Tensor, k: Tensor) -> Float[Tensor, "1 heads queries keys"]:
    """Return the values of a computed bias such as ALiBi for every head, query and key."""
    heads = torch.arange(q.shape[1], device=q.device)[:, None, None]
    position = torch.arange(k.shape[2] - q.shape[2], k.shape[2], device=q.device)[:, None]
    values: Tensor = bias.values(heads, position - torch.arange(k.shape[2], device=q.device))
    return values[None]
