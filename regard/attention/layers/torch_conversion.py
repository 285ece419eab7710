"""Conversion between `nn.MultiheadAttention` and the weights of `regard.nn.MultiHeadAttention`.

| torch | here |
|---|---|
| `in_proj_weight`, `in_proj_bias` | `qkv.weight`, `qkv.bias` |
| `q_proj_weight`; `k_proj_weight` above `v_proj_weight` (if kdim = vdim ≠ embed_dim) | `q.weight`; `kv.weight` |
| `out_proj` | `out` |
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def options_of_torch(layer: nn.MultiheadAttention) -> dict[str, Any]:
    """Return the arguments of `MultiHeadAttention` for a layer of torch; raise an error if there are none.

    >>> options_of_torch(nn.MultiheadAttention(8, 2, kdim=6, vdim=6))["context_dim"]
    6
    """
    if not isinstance(layer, nn.MultiheadAttention):
        raise TypeError(f"from_torch takes nn.MultiheadAttention, got {type(layer).__name__}")
    for name, used in {"add_bias_kv": layer.bias_k is not None, "add_zero_attn": layer.add_zero_attn}.items():
        if used:
            raise ValueError(
                f"MultiHeadAttention has no {name}, which this layer of torch uses; "
                "regard.compat.MultiheadAttention has it"
            )
    if layer.kdim != layer.vdim:
        raise ValueError(
            f"MultiHeadAttention takes one context for keys and values, but this layer of torch has kdim={layer.kdim} "
            f"and vdim={layer.vdim}; regard.compat.MultiheadAttention takes both"
        )
    out = layer.out_proj
    return {
        "d_model": layer.embed_dim,
        "heads": layer.num_heads,
        "context_dim": layer.kdim,
        "bias": layer.in_proj_bias is not None,
        "out_bias": out.bias is not None,
        "dropout": layer.dropout,
        "device": out.weight.device,
        "dtype": out.weight.dtype,
    }


def weights_of_torch(layer: nn.MultiheadAttention) -> dict[str, Tensor]:
    """Return the weights of torch's layer, by their names in `MultiHeadAttention`.

    >>> sorted(weights_of_torch(nn.MultiheadAttention(8, 2, bias=False)))
    ['out.weight', 'qkv.weight']
    """
    bias, width = layer.in_proj_bias, layer.embed_dim
    weights: dict[str, Tensor | None] = {"out.weight": layer.out_proj.weight, "out.bias": layer.out_proj.bias}
    if layer._qkv_same_embed_dim:
        weights |= {"qkv.weight": layer.in_proj_weight, "qkv.bias": bias}
    else:
        weights |= {"q.weight": layer.q_proj_weight, "q.bias": None if bias is None else bias[:width]}
        weights["kv.weight"] = torch.cat((layer.k_proj_weight, layer.v_proj_weight))
        weights["kv.bias"] = None if bias is None else bias[width:]
    return {name: value.detach() for name, value in weights.items() if value is not None}


def build_torch_layer(
    d_model: int, heads: int, context_dim: int, dropout: float, weights: Mapping[str, Tensor]
) -> nn.MultiheadAttention:
    """Return torch's layer with a copy of the weights of a `MultiHeadAttention`, by their names there."""
    packed, out = context_dim == d_model, weights["out.weight"]
    projections = [weights["qkv.weight"]] if packed else [weights["q.weight"], weights["kv.weight"]]
    biases = [weights[name] for name in (("qkv.bias",) if packed else ("q.bias", "kv.bias")) if name in weights]
    layer = nn.MultiheadAttention(
        d_model,
        heads,
        dropout,
        kdim=context_dim,
        vdim=context_dim,
        batch_first=True,
        device=out.device,
        dtype=out.dtype,
    )
    state = {"out_proj.weight": out}
    if packed:
        state["in_proj_weight"] = projections[0]
    else:
        key, value = projections[1].chunk(2)
        state |= {"q_proj_weight": projections[0], "k_proj_weight": key, "v_proj_weight": value}
    # torch's `bias` means both biases; a layer with one of them is built with both and loses the other.
    if biases:
        state["in_proj_bias"] = torch.cat(biases)
    else:
        layer.register_parameter("in_proj_bias", None)
    if "out.bias" in weights:
        state["out_proj.bias"] = weights["out.bias"]
    else:
        layer.out_proj.register_parameter("bias", None)
    layer.load_state_dict(state)
    return layer
