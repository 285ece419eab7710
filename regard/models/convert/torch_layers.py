"""The weights of torch's own layers in ours, which then compute the same.

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
    """A `Layer` with the weights, norms, activation and dropout of one of torch's.

    causal      whether tokens see only those before them; unless given, in a decoder layer they do, in an encoder
                layer they do not (torch leaves it to the mask of each call)

    Whatever `batch_first` the other has, ours takes (B, L, D). Its dropout between the two feed-forward matrices
    has no place here: in training the two differ by that.

    >>> theirs = nn.TransformerEncoderLayer(16, 2, 64, batch_first=True).eval()
    >>> x = torch.randn(2, 5, 16)
    >>> torch.allclose(from_torch(theirs)(x), theirs(x), atol=1e-5)
    True
    """
    crossed = isinstance(layer, nn.TransformerDecoderLayer)
    if not crossed and not isinstance(layer, nn.TransformerEncoderLayer):
        raise TypeError(
            f"from_torch takes nn.TransformerEncoderLayer or nn.TransformerDecoderLayer, got {type(layer).__name__}"
        )
    mha: Any = layer.self_attn
    config = DecoderConfig(
        1,
        d_model=mha.embed_dim,
        heads=mha.num_heads,
        d_ff=layer.linear1.out_features,
        norm="pre" if layer.norm_first else "post",
        epsilon=layer.norm1.eps,
        activation=_activation(layer),
        positions="none",
        dropout=layer.dropout1.p,
        attention_dropout=mha.dropout,
        bias=layer.linear1.bias is not None,
    )
    ours = Layer(config, causal=crossed if causal is None else causal, cross=crossed)
    ours.to(mha.out_proj.weight).train(layer.training)
    ours.load_state_dict({name.format(kind): value.clone() for name, kind, value in _pairs(layer)})
    return ours


def _activation(layer: Any) -> Activation:
    given = layer.activation
    if given is F.relu or isinstance(given, nn.ReLU):
        return "relu"
    if given is F.gelu or isinstance(given, nn.GELU):
        return "gelu_tanh" if getattr(given, "approximate", "none") == "tanh" else "gelu"
    raise ValueError(f"only ReLU and GELU are known here, got the activation {given!r}")


def _pairs(layer: Any) -> list[tuple[str, str, torch.Tensor]]:
    """Our name, what to fill in, and the weight, of everything in a layer of torch."""
    crossed = isinstance(layer, nn.TransformerDecoderLayer)
    attentions = {"attention": layer.self_attn, **({"cross": layer.multihead_attn} if crossed else {})}
    norms = (
        ("attention_norm", layer.norm1),
        *([("cross_norm", layer.norm2)] if crossed else []),
        ("feed_norm", layer.norm3 if crossed else layer.norm2),
    )
    found = []
    for kind in ("weight", "bias"):
        for name, mha in attentions.items():
            found.append((f"{name}.qkv.{{}}", kind, getattr(mha, f"in_proj_{kind}")))
            found.append((f"{name}.out.{{}}", kind, getattr(mha.out_proj, kind)))
        for name, part in (("feed.up", layer.linear1), ("feed.down", layer.linear2), *norms):
            found.append((f"{name}.{{}}", kind, getattr(part, kind)))
    return [pair for pair in found if pair[2] is not None]
