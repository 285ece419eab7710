"""Attention layers of a module, found by running it once; each call becomes a `Layer`.

`find_calls` records the arguments of every attention layer. `ModuleCall.layer` describes the call for the formulas, and
`ModuleCall.prepare` makes it ready to run again for the measurement.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Mask, masks
from regard.attention.torch_compat.torch_masks import convert_torch_masks
from regard.compat import MultiheadAttention as CompatMultiheadAttention
from regard.costs.layer import Layer
from regard.nn import BareSelfAttention, MultiHeadAttention, SelfAttention, SpatialAttention

ATTENTION = (MultiHeadAttention, SelfAttention, BareSelfAttention, SpatialAttention, nn.MultiheadAttention)
TORCH_ARGUMENTS = (
    "query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights", "is_causal",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """One call of an attention layer, with its arguments."""

    name: str
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def layer(self, *, backward: bool) -> Layer:
        """Return the sizes and options of the call."""
        if isinstance(self.module, nn.MultiheadAttention):
            return _torch_layer(self, self.module, backward)
        x = self.args[0] if self.args else self.kwargs["x"]
        if isinstance(self.module, MultiHeadAttention):
            return _multi_head_layer(self, self.module, x)
        if isinstance(self.module, SpatialAttention):
            return _spatial_layer(self, self.module, x)
        assert isinstance(self.module, SelfAttention | BareSelfAttention)
        return _single_head_layer(self, self.module, x)

    def prepare(self, *, backward: bool) -> Callable[[], object]:
        """Return the call with copies of its arguments, ready to run; a cache is in the state before the call."""
        tensors = [x for x in (*self.args, *self.module.parameters()) if isinstance(x, Tensor)]
        if devices := {x.device.type for x in tensors} - {"cpu"}:
            raise ValueError(f"only modules and inputs on the CPU can be measured, got {', '.join(devices)}")
        copies: dict[int, Any] = {}  # an object that is passed twice stays one object

        def copied(x: Any) -> Any:
            if isinstance(x, Tensor) and x.is_floating_point():
                return copies.setdefault(id(x), x.detach().requires_grad_(backward))
            return copy.deepcopy(x) if hasattr(x, "append") and hasattr(x, "reorder") else x

        args = tuple(copied(x) for x in self.args)
        kwargs = {name: copied(x) if name in COPIED_KWARGS else x for name, x in self.kwargs.items()}
        if not backward:
            return torch.no_grad()(lambda: self.module(*args, **kwargs))
        for parameter in self.module.parameters():
            parameter.grad = None
        with torch.no_grad():
            gradient = torch.ones_like(_first(self.module(*args, **kwargs)))

        def forward_and_backward() -> object:
            result = self.module(*args, **kwargs)
            _first(result).backward(gradient)
            return result

        return forward_and_backward


COPIED_KWARGS = ("context", "key", "value", "cache")


def _first(result: Any) -> Tensor:
    return result[0] if isinstance(result, tuple) else result


def find_calls(module: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> list[ModuleCall]:
    """Run the module once, without gradients, and return the calls of all its attention layers."""
    calls: list[ModuleCall] = []
    handles = []
    for name, layer in module.named_modules():
        if isinstance(layer, ATTENTION):

            def record(layer: nn.Module, args: Any, layer_kwargs: Any, name: str = name) -> None:
                # The call appends to its cache, so the cache is copied before.
                copied = {key: copy.deepcopy(x) if key == "cache" else x for key, x in layer_kwargs.items()}
                calls.append(ModuleCall(name, layer, args, copied))

            handles.append(layer.register_forward_pre_hook(record, with_kwargs=True))
    try:
        with torch.no_grad():
            module(*inputs, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    if not calls:
        raise ValueError(
            f"no attention layer was called inside {type(module).__name__}; these are counted: "
            "regard.nn (MultiHeadAttention, SelfAttention, BareSelfAttention, SpatialAttention), "
            "regard.compat.MultiheadAttention and torch.nn.MultiheadAttention"
        )
    return calls


def _layer(call: ModuleCall, x: Tensor, sizes: tuple[int, int, int, int, int], **options: Any) -> Layer:
    """Return a Layer for sizes (batch, queries, keys, d_model, heads); `options` are further fields of `Layer`."""
    _, _, keys, d_model, heads = sizes
    widths = {"kv_heads": heads, "d_k": d_model // heads, "projected_keys": keys}
    options = {**widths, "key_dim": d_model, "value_dim": d_model, **options}
    parameters = sum(parameter.numel() for parameter in call.module.parameters())
    return Layer(*sizes, parameters=parameters, dtype=x.dtype, name=call.name, **options)


def _mask_options(
    mask: Mask | Tensor | None, batch: int, heads: int, queries: int, keys: int
) -> tuple[Mask | None, int]:
    """Return the mask as a `Mask`, and the number of its values if it is a tensor, else 0."""
    if isinstance(mask, Tensor):
        leading = mask.shape[:-2] if mask.dim() > 2 else ()
        return masks.as_mask(mask.expand(*leading, queries, keys)), mask.numel()
    if mask is not None:
        mask.check(batch, heads, queries, keys)
    return mask, 0


def _multi_head_layer(call: ModuleCall, layer: MultiHeadAttention, x: Tensor) -> Layer:
    context = call.args[1] if len(call.args) > 1 else call.kwargs.get("context")
    cache, weights = call.kwargs.get("cache"), call.kwargs.get("weights", False)
    batch, queries = math.prod(x.shape[:-2]), x.shape[-2]
    is_self_attention = context is None or context is x
    keys = projected_keys = queries
    if isinstance(context, Tensor):
        keys = projected_keys = context.shape[-2]
    elif context is not None:  # keys and values that were projected before
        keys, projected_keys = context.keys.shape[-2], 0
    if cache is not None:
        token = x.new_zeros(batch, layer.kv_heads, queries, layer.d_k)
        keys = copy.deepcopy(cache).append(token, token)[0].shape[-2]
    mask, mask_tensor = _mask_options(call.kwargs.get("mask"), batch, layer.heads, queries, keys)
    if cache is not None and queries > 1 and cache.rule is not None:
        mask = cache.rule if mask is None else cache.rule & mask
    if is_self_attention and layer.causal and queries > 1:
        mask = masks.causal() if mask is None else masks.causal() & mask
    has_dropout = layer.training and layer.dropout > 0
    if layer.sinks is not None and (weights or has_dropout):
        raise ValueError(
            f"{call.name or 'the layer'} has sinks and computes attention twice if it returns weights or applies "
            "dropout, which cost does not count; call it without weights, in eval mode"
        )
    size, query_numbers = x.element_size(), batch * queries * layer.heads * layer.d_k
    key_numbers = batch * projected_keys * layer.kv_heads * layer.d_k
    changes_q_and_k = layer.rotary is not None or layer.q_norm is not None
    extra_bytes = (query_numbers + key_numbers) * size if changes_q_and_k else 0
    options: dict[str, Any] = {"kv_heads": layer.kv_heads, "d_k": layer.d_k, "projected_keys": projected_keys}
    options |= {"key_dim": layer.context_dim, "value_dim": layer.context_dim, "packed": is_self_attention}
    options |= {"bias": layer.out.bias is not None, "mask": mask, "mask_tensor": mask_tensor, "alibi": layer.alibi}
    options |= {"materialised": bool(weights) or has_dropout, "mean_weights": weights == "mean"}
    options |= {"returns_weights": bool(weights), "sinks": layer.sinks is not None}
    if cache is not None:
        options["cache_tokens"] = cache.nbytes // max(1, 2 * batch * layer.kv_heads * layer.d_k * size)
    extra_bytes += 0 if layer.sinks is None else query_numbers * size
    return _layer(call, x, (batch, queries, keys, layer.d_model, layer.heads), extra_bytes=extra_bytes, **options)


def _single_head_layer(call: ModuleCall, layer: SelfAttention | BareSelfAttention, x: Tensor) -> Layer:
    mask = call.args[1] if len(call.args) > 1 else call.kwargs.get("mask")
    if isinstance(mask, Tensor) and mask.dim() > 2:
        mask = mask.unsqueeze(-3)
    batch, length = math.prod(x.shape[:-2]), x.shape[-2]
    rule, mask_tensor = _mask_options(mask, batch, 1, length, length)
    is_bare = isinstance(layer, BareSelfAttention)
    bias = layer.b_q if isinstance(layer, BareSelfAttention) else layer.W_q.bias
    options: dict[str, Any] = {"d_k": layer.d_k, "kind": "bare" if is_bare else "single", "bias": bias is not None}
    options |= {"materialised": bool(call.kwargs.get("weights", False)), "mask": rule, "mask_tensor": mask_tensor}
    return _layer(call, x, (batch, length, length, layer.d_model, 1), output=False, **options)


def _spatial_layer(call: ModuleCall, layer: SpatialAttention, x: Tensor) -> Layer:
    batch, squares = math.prod(x.shape[:-3]), x.shape[-2] * x.shape[-1]
    weights = call.kwargs.get("weights", False)
    mask, mask_tensor = _mask_options(call.kwargs.get("mask"), batch, layer.heads, squares, squares)
    options: dict[str, Any] = {"bias": layer.out.bias is not None, "mask": mask, "mask_tensor": mask_tensor}
    has_dropout = layer.training and layer.dropout > 0
    options |= {"materialised": bool(weights) or has_dropout, "mean_weights": weights == "mean"}
    options |= {"contiguous": x.flatten(-2).transpose(-1, -2).is_contiguous(), "residual": layer.residual}
    extra_bytes = 0 if layer.norm is None else x.numel() * x.element_size()
    sizes = (batch, squares, squares, layer.channels, layer.heads)
    return _layer(call, x, sizes, kind="spatial", extra_bytes=extra_bytes, **options)


def _torch_layer(call: ModuleCall, layer: nn.MultiheadAttention, backward: bool) -> Layer:
    arguments = dict(zip(TORCH_ARGUMENTS, call.args, strict=False)) | call.kwargs
    query, key, value = arguments["query"], arguments["key"], arguments["value"]
    is_batched = query.dim() == 3
    length = 1 if is_batched and layer.batch_first else 0
    batch = query.shape[1 - length] if is_batched else 1
    queries, projected_keys, heads = query.shape[length], key.shape[length], layer.num_heads
    added_keys = (layer.bias_k is not None) + layer.add_zero_attn
    keys = projected_keys + added_keys
    needs_weights, has_dropout = arguments.get("need_weights", True), layer.training and layer.dropout > 0
    is_compat, is_self_attention = isinstance(layer, CompatMultiheadAttention), query is key and key is value
    fused = is_compat and not (needs_weights or has_dropout)
    mask, mask_tensor = _torch_mask_options(arguments, batch, heads, queries, keys, added_keys, fused=fused)
    native = (
        is_self_attention
        and not (is_compat or backward or layer.training or added_keys)
        and layer.batch_first
        and is_batched
        and heads % 2 == 0
        and layer.in_proj_bias is not None
        and layer._qkv_same_embed_dim
        and torch.backends.mha.get_fastpath_enabled()
    )
    has_batch_dimension = is_batched and batch > 1
    widths = (layer.embed_dim if width is None else width for width in (layer.kdim, layer.vdim))
    options: dict[str, Any] = dict(zip(("key_dim", "value_dim"), widths, strict=True))
    options |= {"kind": "multihead" if is_compat else "torch", "by_regard": is_compat, "native": native}
    options |= {"projected_keys": projected_keys, "packed": is_self_attention, "bias": layer.in_proj_bias is not None}
    options |= {"materialised": bool(needs_weights or has_dropout or native), "returns_weights": bool(needs_weights)}
    options |= {"mean_weights": bool(needs_weights and arguments.get("average_attn_weights", True))}
    options |= {"mask": mask, "mask_tensor": mask_tensor}
    options |= {"contiguous": is_compat or not (layer.batch_first and has_batch_dimension)}
    options |= {"copies_context": is_compat and layer.training and layer.batch_first and has_batch_dimension}
    return _layer(call, query, (batch, queries, keys, layer.embed_dim, heads), **options)


def _torch_mask_options(
    arguments: dict[str, Any], batch: int, heads: int, queries: int, keys: int, added_keys: int, *, fused: bool
) -> tuple[Mask | None, int]:
    """Return torch's masks (True = ignore) as one `Mask`, and the number of values of those added as tensors."""
    attn_mask, padding = arguments.get("attn_mask"), arguments.get("key_padding_mask")
    if attn_mask is None and padding is None:
        return None, 0
    if attn_mask is not None and attn_mask.dim() == 3:
        attn_mask = attn_mask.reshape(batch, heads, *attn_mask.shape[1:])
    if padding is not None and padding.dim() == 1:
        padding = padding[None]
    if added_keys:
        attn_mask, padding = (
            None if m is None else nn.functional.pad(m, (0, added_keys)) for m in (attn_mask, padding)
        )
    rule: Any = None
    if fused:
        q, k = torch.empty(batch, heads, queries, 1), torch.empty(batch, heads, keys, 1)
        rule, bias = convert_torch_masks(q, k, padding, attn_mask, bool(arguments.get("is_causal", False)))
        tensors = [rule if isinstance(rule, Tensor) else None, bias]
        rule = None if isinstance(rule, Tensor) else rule
    else:
        hidden = [attn_mask, None if padding is None else padding[:, None, None]]
        tensors = [~x if x is not None and x.dtype == torch.bool else x for x in hidden]
    mask_tensor = 0
    for tensor in (x for x in tensors if x is not None):
        visible = tensor if tensor.dtype == torch.bool else ~tensor.isneginf()
        table = masks.as_mask(visible.expand(*visible.shape[:-2], queries, keys))
        rule = table if rule is None else rule & table
        mask_tensor += visible.numel()
    return rule, mask_tensor
