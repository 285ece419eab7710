"""Small Transformers that map token ids (B, L) to logits (B, L, V), bidirectional or causal."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from regard.models import Decoder, DecoderConfig, Encoder, EncoderConfig


def token_model(vocabulary: int, *, causal: bool, **config: Any) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """Return a pre-norm Transformer with 4 heads and untied embeddings, and the function from tokens to logits.

    >>> import torch
    >>> model, logits = token_model(8, causal=True, d_model=16, layers=1, context=4)
    >>> logits(torch.zeros(2, 4, dtype=torch.long)).shape
    torch.Size([2, 4, 8])
    """
    config = {"heads": 4, "dropout": 0.0, "norm": "pre", "tied": False, **config}
    if causal:
        decoder = Decoder(DecoderConfig(vocabulary, **config))
        return decoder, decoder
    encoder = Encoder(EncoderConfig(vocabulary, **config))
    return encoder, encoder.logits
