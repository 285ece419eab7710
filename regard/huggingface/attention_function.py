"""The attention function that every attention module of transformers calls with attn_implementation="regard"."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention import attend, masks
from regard.attention.kernels.private_torch_operators import in_jit_trace
from regard.attention.layers.sinks import attend_with_sinks
from regard.attention.masks import Mask
from regard.huggingface.lazy_weights import LazyWeights, WeightSource
from regard.huggingface.mask_creation import LazyMask


def attention(
    module: nn.Module,
    query: Float[Tensor, "b h l d"],
    key: Float[Tensor, "kb g s d"],
    value: Float[Tensor, "kb g s dv"],
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Float[Tensor, "..."] | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    sinks: Tensor | None = None,
    indices: Tensor | None = None,
    **options: Any,
) -> tuple[Float[Tensor, "b l h dv"], LazyWeights | None]:
    """Return the output and, if they may be used, the weights, which are computed when they are read.

    attention_mask  a `LazyMask`, a boolean tensor (True = visible), a tensor that is added to the scores, or None: then
                    the attention is causal, aligned at the end, if `is_causal` or else `module.is_causal` says so
    s_aux, sinks    logits of sinks, (H,), or (B, H, L, 1)
    indices         keys that each query may see, (B, L, n), as models with an indexer pass them
    """
    for name in ("cache", "block_indices"):
        if options.get(name) is not None:
            raise ValueError(
                f'attn_implementation="regard" does not support the argument {name!r} of {type(module).__name__}; '
                'use attn_implementation="sdpa" for this model'
            )
    size, queries = key.shape[2], query.shape[2]
    if query.shape[0] == 1 < key.shape[0]:
        query = query.expand(key.shape[0], -1, -1, -1)
    mask, bias = _mask_and_bias(module, attention_mask, position_bias, is_causal, queries, size)
    if isinstance(attention_mask, LazyMask) and not attention_mask.is_computed and attention_mask.keys < size:
        key, value = key[:, :, : attention_mask.keys], value[:, :, : attention_mask.keys]
        bias = bias if bias is None or bias.shape[-1] == 1 else bias[..., : attention_mask.keys]
    if indices is not None:
        mask = _and(mask, _chosen_keys(indices, key.shape[2]))
    if sinks is None and s_aux is not None:
        sinks = s_aux
    if sinks is not None:
        sinks = sinks.flatten() if sinks.numel() == query.shape[1] else sinks[..., 0]
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    arguments: dict[str, Any] = {"bias": bias, "scale": scale, "dropout": float(dropout), "softcap": softcap}
    if sinks is None:
        out = attend(query, key, value, mask, **arguments)
    else:
        out = attend_with_sinks(query, key, value, sinks, mask, **arguments)
    assert isinstance(out, Tensor)
    weights = None
    if _weights_may_be_used(options):
        source = WeightSource(query, key, mask, bias, scale, softcap, sinks, size, None)
        weights = _lazy_weights(source, bool(options.get("output_attentions")) or bool(_collected()))
    return out.transpose(1, 2).contiguous(), weights


def _mask_and_bias(
    module: nn.Module,
    attention_mask: Tensor | None,
    position_bias: Tensor | None,
    is_causal: bool | None,
    queries: int,
    keys: int,
) -> tuple[Mask | Tensor | None, Tensor | None]:
    """Return what hides pairs, and what is added to the scores."""
    if attention_mask is None:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        return (masks.causal() if causal and queries > 1 else None), position_bias
    if isinstance(attention_mask, LazyMask):
        if not attention_mask.is_computed:
            return attention_mask.rule, position_bias
        attention_mask = attention_mask.values()
    if attention_mask.shape[-1] > keys:
        attention_mask = attention_mask[..., :keys]
    if attention_mask.dtype == torch.bool:
        return attention_mask, position_bias
    return None, attention_mask if position_bias is None else position_bias + attention_mask


def _chosen_keys(indices: Tensor, keys: int) -> Bool[Tensor, "b 1 l s"]:
    chosen = torch.zeros(*indices.shape[:2], keys, dtype=torch.bool, device=indices.device)
    return chosen.scatter_(-1, indices.long(), True)[:, None]


def _and(mask: Mask | Tensor | None, visible: Tensor) -> Mask | Tensor:
    return visible if mask is None else mask & (masks.given(visible) if isinstance(mask, Mask) else visible)


def _weights_may_be_used(options: dict[str, Any]) -> bool:
    """Return whether the caller may keep the weights; True if that is not known, because lazy weights are cheap."""
    if torch.compiler.is_compiling() or in_jit_trace() or options.get("output_attentions") is False:
        return False
    return bool(options.get("output_attentions")) or _collected() is not False


def _collected() -> bool | None:
    """Return whether transformers collects attention weights in this forward pass; None if that is not known."""
    try:
        from transformers.utils.output_capturing import _active_collector
    except ImportError:  # before transformers 5, modules decide
        return None
    collected: Any = _active_collector.get()  # type: ignore[no-untyped-call]
    return None if collected is None else any("attentions" in name for name in collected)


def _lazy_weights(source: WeightSource, requested: bool) -> LazyWeights:
    """Return weights that stay correct: keys that a static cache may overwrite are copied, or watched for changes."""
    k = source.k
    if k.is_inference():
        source = replace(source, k=k.clone()) if requested else source
    elif requested and (k._version > 0 or k._base is not None):
        source = replace(source, k=k.clone())
    else:
        source = replace(source, version=k._version)
    shape = (*source.q.shape[:3], source.size)
    return LazyWeights(shape, source.q.dtype, source.q.device, source=source)
