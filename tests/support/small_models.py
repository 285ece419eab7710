"""Small models of every kind, for tests."""

from typing import Any

import torch

from regard.models import (
    Decoder,
    DecoderConfig,
    Encoder,
    EncoderConfig,
    Recurrent,
    RecurrentConfig,
    Seq2Seq,
    Seq2SeqConfig,
)

SIZES: dict[str, Any] = {"d_model": 32, "heads": 4, "layers": 2, "context": 160, "dropout": 0.0}

VARIANTS: dict[str, dict[str, Any]] = {
    "published": {},
    "learned, pre-norm, gelu": {"positions": "learned", "norm": "pre", "activation": "gelu"},
    "tanh, untied": {"activation": "gelu_tanh", "tied": False, "norm": "pre"},
    "alibi": {"positions": "alibi", "norm": "pre"},
    "no positions, no bias": {"positions": "none", "bias": False},
    "rotary, post-norm": {"positions": "rotary", "kv_heads": 1},
    "modern": {
        "positions": "rotary",
        "norm": "pre",
        "normalisation": "rms",
        "activation": "swiglu",
        "bias": False,
        "kv_heads": 2,
    },
}


def decoder(vocabulary: int = 40, **changes: Any) -> Decoder:
    return _enlarge_weights(Decoder(DecoderConfig(vocabulary, **{**SIZES, **changes})))


def encoder(vocabulary: int = 40, **changes: Any) -> Encoder:
    return _enlarge_weights(Encoder(EncoderConfig(vocabulary, **{**SIZES, **changes})))


def seq2seq(source: int = 30, target: int = 40, **changes: Any) -> Seq2Seq:
    return _enlarge_weights(Seq2Seq(Seq2SeqConfig(source, target, **{**SIZES, **changes})))


def recurrent(source: int = 30, target: int = 40, *, attention: bool, **changes: Any) -> Recurrent:
    sizes = {"d_model": 32, "layers": 2, "context": 160, "dropout": 0.0, **changes}
    return _enlarge_weights(Recurrent(RecurrentConfig(source, target, attention=attention, **sizes)))


def _enlarge_weights(model: Any) -> Any:
    """Enlarge weights and biases, so that scores differ by more than rounding errors, and switch to eval mode."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.dim() > 1:
                value.mul_(1.5)
            elif "bias" in name:
                value.add_(torch.randn(value.shape, generator=generator), alpha=0.3)
            else:
                value.mul_(1 + 0.3 * torch.randn(value.shape, generator=generator))
    return model.eval()


def tokens(*shape: int, vocabulary: int = 30, seed: int = 0) -> torch.Tensor:
    return torch.randint(vocabulary, shape, generator=torch.Generator().manual_seed(seed))
