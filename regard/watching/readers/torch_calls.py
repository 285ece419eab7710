"""Readers of attention functions: each converts the arguments of one function into a `Call`.

| function | called by |
|---|---|
| `F.scaled_dot_product_attention` | any code: Hugging Face with "sdpa", x-transformers with flash, torch's layers |
| `torch._native_multi_head_attention` | nn.MultiheadAttention on its fast path; q and k are not visible |
| `torch._transformer_encoder_layer_fwd` | nn.TransformerEncoderLayer on its fast path; q and k are not visible |
| `regard.attend` | the layers of regard |
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

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
    output: Tensor | None = None,
) -> Call:
    """Read a call of torch's fused attention: in boolean masks True = visible; is_causal is aligned at the start."""
    if query.is_nested:
        return _from_nested(name, query, key, value, is_causal, scale)
    if attn_mask is not None and hasattr(
        attn_mask, "_materialize"
    ):  # torch.nn.attention.bias: causal masks as tensor subclasses
        attn_mask = attn_mask._materialize(query.device)
    if attn_mask is None and query.dim() == key.dim() == 4 and query.shape[:2] == key.shape[:2]:
        mask = shift_mask(masks.causal(), queries=query.shape[2] - key.shape[2], keys=0) if is_causal else None
        options: dict[str, Any] = {"mask": mask, "dropout": dropout_p, "outputs": output}
        return _call(name, "scaled_dot_product_attention", query, key, value, scale, **options)
    mask_lead = () if attn_mask is None else attn_mask.shape[:-2]
    lead = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], mask_lead[:-1])
    heads = query.shape[-3:-2]
    if not enable_gqa:
        heads = torch.broadcast_shapes(heads, key.shape[-3:-2], mask_lead[-1:])
        key, value = (x.expand(*lead, *heads, *x.shape[-2:]) for x in (key, value))
    q = to_4d(query.expand(*lead, *heads, *query.shape[-2:]))
    k, v = (to_4d(x.expand(*lead, *x.shape[-3:])) for x in (key, value))
    mask = shift_mask(masks.causal(), queries=q.shape[2] - k.shape[2], keys=0) if is_causal else None
    options = {"mask": mask, "dropout": dropout_p, "outputs": output}
    if attn_mask is not None:
        options |= _mask_option(table_to_4d(attn_mask, lead))
    return _call(name, "scaled_dot_product_attention", q, k, v, scale, **options)


def _from_nested(name: str, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float | None) -> Call:
    """Read a call with nested tensors (B, H, lengths, d): padded, with a mask for the padding."""
    (q, lengths), (k, sizes), (v, _) = map(_pad_nested, (query, key, value))
    visible = torch.arange(k.shape[2], device=k.device) < torch.tensor(sizes, device=k.device)[:, None]
    rows = torch.arange(q.shape[2], device=q.device) < torch.tensor(lengths, device=q.device)[:, None]
    table = visible[:, None, None] & rows[:, None, :, None]
    mask = shift_mask(masks.causal(), queries=q.shape[2] - k.shape[2], keys=0) if is_causal else None
    return _call(name, "scaled_dot_product_attention", q, k, v, scale, mask=mask, boolean_mask=table)


def _pad_nested(x: Tensor) -> tuple[Tensor, list[int]]:
    """Return a nested tensor (B, H, lengths, d) padded with zeros, and the lengths."""
    items = [item.detach() for item in x.unbind()]
    lengths = [item.shape[1] for item in items]
    return torch.stack([F.pad(item, (0, 0, 0, max(lengths) - item.shape[1])) for item in items]), lengths


@cache
def from_operator(operator: Any) -> Callable[..., Call]:
    """Return a reader of one of torch's attention operators, such as aten._scaled_dot_product_flash_attention."""

    def read(name: str, *args: Any, output: Tensor | None = None, **kwargs: Any) -> Call:
        arguments = _by_name(operator, args, kwargs)
        q, k, mask = arguments["query"], arguments["key"], arguments.get("attn_mask", arguments.get("attn_bias"))
        options = {key: arguments.get(key, default) for key, default in SDPA_OPTIONS.items()}
        grouped = q.dim() > 2 and q.shape[-3] != k.shape[-3] and k.shape[-3] > 1
        call = from_sdpa(name, q, k, arguments["value"], mask, **options, enable_gqa=grouped, output=output)
        call.kernel = operator.__name__.partition(".")[0]
        return call

    return read


SDPA_OPTIONS: dict[str, Any] = {"dropout_p": 0.0, "is_causal": False, "scale": None}


def from_attend(name: str, arguments: dict[str, Any]) -> Call:
    """Read a call of `regard.attend` from its arguments by name."""
    q, k, v = (to_4d(arguments[key]) for key in ("q", "k", "v"))
    mask, bias, sinks = arguments["mask"], arguments["bias"], arguments.get("sinks")
    options: dict[str, Any] = {"dropout": arguments["dropout"], "outputs": arguments.get("output")}
    if isinstance(mask, Mask):
        options["mask"] = mask
    elif mask is not None:
        options |= _mask_option(to_4d(mask))
    if isinstance(bias, Tensor):
        options["bias"] = to_4d(bias)
    elif bias is not None:
        options["bias_rule"] = bias
    if sinks is not None:
        options["sinks"] = sinks[None, :, None] if sinks.dim() == 1 else sinks
    if (change := arguments.get("change")) is not None:
        options |= {"softcap": change.softcap or 0.0, "score_function": change.function}
    return _call(name, "regard.attend", q, k, v, arguments["scale"], **options)


def from_native_mha(name: str, *args: Any, output: Any = None, **kwargs: Any) -> Call:
    """Read nn.MultiheadAttention in inference, one kernel from input to output. **True = ignore** in its masks."""
    arguments = _by_name(torch.ops.aten._native_multi_head_attention.default, args, kwargs)
    x, heads = arguments["query"], arguments["num_head"]
    return _call_from_input(name, "native multi-head attention", arguments, x, heads, lambda: x, ())


def from_encoder_layer(name: str, *args: Any, output: Any = None, **kwargs: Any) -> Call:
    """Read nn.TransformerEncoderLayer in inference, where the whole layer is one kernel."""
    arguments = _by_name(torch.ops.aten._transformer_encoder_layer_fwd.default, args, kwargs)
    x, heads = arguments["src"], arguments["num_heads"]

    norm = tuple(arguments[name] for name in ("norm_weight_1", "norm_bias_1"))

    def attention_input() -> Tensor:
        size = (arguments["embed_dim"],)
        return F.layer_norm(x, size, norm[0], norm[1], arguments["eps"]) if arguments["norm_first"] else x

    path = f"{name}.self_attn" if name else "self_attn"
    return _call_from_input(path, "native encoder layer", arguments, x, heads, attention_input, norm)


def _by_name(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a torch operator by name."""
    return dict(zip((x.name for x in operator._schema.arguments), args, strict=False)) | kwargs


def _call_from_input(
    name: str,
    kernel: str,
    arguments: dict[str, Any],
    x: Tensor,
    heads: int,
    attention_input: Callable[[], Tensor],
    norm: tuple[Tensor, ...],
) -> Call:
    """Return a call of a kernel that shows only its input; q, k and v are projected again when they are needed."""
    lengths = [item.shape[0] for item in x.unbind()] if x.is_nested else None
    batch, length = (x.shape[0], x.shape[1]) if lengths is None else (len(lengths), max(lengths))
    weight, bias, mask = arguments["qkv_weight"], arguments["qkv_bias"], arguments.get("mask")
    d_model = weight.shape[1]
    held = (x, weight, bias, *norm)
    versions = tensor_versions(*held)

    @cache
    def project() -> tuple[Tensor, ...]:
        if tensor_versions(*held) != versions:
            raise RuntimeError(
                f"the input or the weights of {name!r} were changed in place after the call, so its queries and keys "
                "are no longer known; watch with keep='statistics' or keep='copies'"
            )
        with torch.no_grad():
            tokens = attention_input()
            tokens = torch.nested.to_padded_tensor(tokens, 0.0) if x.is_nested else tokens
            parts = F.linear(tokens, weight, bias).chunk(3, -1)
            return tuple(part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in parts)

    if any(tensor.is_inference() for tensor in held):
        project()  # changes in place cannot be detected, so the projections are kept
    options: dict[str, Any] = {"mask": None if lengths is None else masks.padding(lengths)}
    if mask is not None:
        visible = _inverted(mask) if not mask.dtype.is_floating_point else mask
        if arguments.get("mask_type") == 1 and mask.dim() == 2:  # padding, (B, S)
            visible = visible[:, None, None]
        options |= _mask_option(to_4d(visible.detach()))
    queries, keys, values = (partial(_part, project, i) for i in range(3))
    scale = (d_model // heads) ** -0.5
    return Call(name, kernel, (batch, heads, length, length), scale, queries, keys, values, **options)


def _part(project: Callable[[], tuple[Tensor, ...]], i: int) -> Tensor:
    return project()[i]


_inversions = WeakIdKeyDictionary()  # mask → its version and its inversion, which all layers share


def _inverted(mask: Tensor) -> Tensor:
    """Return a mask with True = ignore as one with True = visible."""
    version = tensor_versions(mask)
    cached_version, inverted = _inversions.get(mask, (None, None))
    if inverted is None or version == (None,) or cached_version != version:
        inverted = mask == 0
        _inversions[mask] = version, inverted
    return inverted


def _call(
    name: str, kernel: str, q: Tensor, k: Tensor, v: Tensor, scale: float | None, outputs: Any = None, **options: Any
) -> Call:
    """Return the call of queries (B, H, L, d_k), keys (B, H_kv, S, d_k) and values (B, H_kv, S, d_v)."""
    shape, factor = (*q.shape[:3], k.shape[2]), q.shape[-1] ** -0.5 if scale is None else float(scale)
    if isinstance(outputs, Tensor):
        options["outputs"] = to_4d(outputs)
    return Call(name, kernel, shape, factor, q, k, v, **options)


def _mask_option(mask: Tensor) -> dict[str, Tensor]:
    """Return a mask of rank 4 as an option of `Call`: booleans (True = visible), or numbers that are added."""
    return {"boolean_mask" if mask.dtype == torch.bool else "bias": mask}
