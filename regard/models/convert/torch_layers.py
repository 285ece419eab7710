"""Convert torch's transformer layers: a `Layer` with the same weights and the same results.

| torch | here |
|---|---|
| `self_attn.in_proj_weight`, `.out_proj` | `attention.qkv`, `attention.out` |
| `multihead_attn` | `cross` |
| `linear1`, `linear2` | `feed.up`, `feed.down` |
| `norm1`, `norm2`, `norm3` | `attention_norm`, `cross_norm` (if any), `feed_norm` |
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from regard.models.transformer.config import Activation, DecoderConfig
from regard.models.transformer.layer import Layer


def from_torch(layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer, *, causal: bool | None = None) -> Layer:
    """Return a `Layer` with the weights, norms, activation and dropout of a layer of torch.

    causal      whether tokens attend only to earlier tokens; None means yes for a decoder layer and no for an encoder
                layer (torch has a mask for each call instead)

    The result takes (B, L, D) whatever `batch_first` is. It has no dropout between the two feed-forward matrices; in
    training it differs from torch's layer by that.

    >>> theirs = nn.TransformerEncoderLayer(16, 2, 64, batch_first=True).eval()
    >>> x = torch.randn(2, 5, 16)
    >>> torch.allclose(from_torch(theirs)(x), theirs(x), atol=1e-5)
    True
    """
    cross = isinstance(layer, nn.TransformerDecoderLayer)
    if not cross and not isinstance(layer, nn.TransformerEncoderLayer):
        raise TypeError(
            f"from_torch takes nn.TransformerEncoderLayer or nn.TransformerDecoderLayer, got {type(layer).__name__}"
        )
    mha: Any = layer.self_attn
    config = DecoderConfig(
        1, d_model=mha.embed_dim, heads=mha.num_heads, d_ff=layer.linear1.out_features,
        norm="pre" if layer.norm_first else "post", epsilon=layer.norm1.eps, activation=_activation(layer),
        positions="none", dropout=layer.dropout1.p, attention_dropout=mha.dropout, bias=layer.linear1.bias is not None,
    )  # fmt: skip
    ours = Layer(config, causal=cross if causal is None else causal, cross=cross)
    ours.to(mha.out_proj.weight).train(layer.training)
    ours.load_state_dict(_weights(layer, cross))
    return ours


def _activation(layer: Any) -> Activation:
    activation = layer.activation
    if activation is F.relu or isinstance(activation, nn.ReLU):
        return "relu"
    if activation is F.gelu or isinstance(activation, nn.GELU):
        return "gelu_tanh" if getattr(activation, "approximate", "none") == "tanh" else "gelu"
    raise ValueError(f"the activation must be ReLU or GELU, got {activation!r}")


def _weights(layer: Any, cross: bool) -> dict[str, torch.Tensor]:
    """Return copies of the weights of torch's layer, by their names in `Layer`."""
    attentions = {"attention": layer.self_attn, **({"cross": layer.multihead_attn} if cross else {})}
    parts = {"feed.up": layer.linear1, "feed.down": layer.linear2, "attention_norm": layer.norm1}
    parts |= {"cross_norm": layer.norm2, "feed_norm": layer.norm3} if cross else {"feed_norm": layer.norm2}
    parts |= {f"{name}.out": mha.out_proj for name, mha in attentions.items()}
    weights: dict[str, torch.Tensor | None] = {}
    for kind in ("weight", "bias"):
        weights |= {f"{name}.qkv.{kind}": getattr(mha, f"in_proj_{kind}") for name, mha in attentions.items()}
        weights |= {f"{name}.{kind}": getattr(part, kind) for name, part in parts.items()}
    return {name: value.clone() for name, value in weights.items() if value is not None}
