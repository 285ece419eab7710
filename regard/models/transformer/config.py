"""What a model is made of: frozen, checked when made, written to disk as it stands.

The defaults are those of the documents: post-norm, ReLU, sines and cosines for places. `modern(…)` starts from
what has become usual since: pre-norm, RMSNorm, SwiGLU, rotary places, no biases.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from regard.attention import check_groups, check_heads

Norm = Literal["post", "pre"]
Normalisation = Literal["layer", "rms"]
Activation = Literal["relu", "gelu", "gelu_tanh", "swiglu"]
Positions = Literal["sinusoidal", "learned", "rotary", "alibi", "none"]

C = TypeVar("C", bound="Common")

MODERN: dict[str, Any] = {
    "norm": "pre",
    "normalisation": "rms",
    "activation": "swiglu",
    "positions": "rotary",
    "bias": False,
    "dropout": 0.0,
}


@dataclass(frozen=True, kw_only=True)
class Common:
    """What all transformers here share.

    d_model             D, the width of a token's vector
    heads, kv_heads     H query heads, H_kv key/value heads (H unless given, fewer for grouped heads)
    layers              how many layers
    d_ff                inner width of the feed-forward part; 4·D unless given, for SwiGLU 8/3·D (which has as many
                        weights) rounded up to a multiple of 32
    context             the longest sequence
    norm                "post": norm(x + part(x)), as published; "pre": x + part(norm(x)), and a norm at the end
    normalisation       "layer" or "rms"
    epsilon             what is added to the variance
    activation          "relu", "gelu", "gelu_tanh" (the approximation GPT-2 was trained with) or "swiglu"
    positions           "sinusoidal" or "learned", added to the vectors; "rotary" or "alibi", inside attention; "none"
    dropout             share dropped from the embedding and from the output of every part, while training
    attention_dropout   share of the attention weights dropped; none unless asked, since no fused kernel drops them
    tied                whether the output layer is the embedding's table
    bias                whether the projections add one
    """

    d_model: int = 256
    heads: int = 8
    kv_heads: int | None = None
    layers: int = 4
    d_ff: int | None = None
    context: int = 512
    norm: Norm = "post"
    normalisation: Normalisation = "layer"
    epsilon: float = 1e-5
    activation: Activation = "relu"
    positions: Positions = "sinusoidal"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    tied: bool = True
    bias: bool = True

    def __post_init__(self) -> None:
        for name in ("d_model", "heads", "layers", "context"):
            check_whole(self, name)
        for name in ("kv_heads", "d_ff"):
            if getattr(self, name) is not None:
                check_whole(self, name)
        for name, choices in (
            ("norm", Norm),
            ("normalisation", Normalisation),
            ("activation", Activation),
            ("positions", Positions),
        ):
            check_choice(self, name, get_args(choices))
        for name in ("dropout", "attention_dropout"):
            check_share(self, name)
        for name in ("tied", "bias"):
            check_flag(self, name)
        if not isinstance(self.epsilon, float) or not 0 < self.epsilon < 1:
            raise ValueError(f"epsilon must be a small positive number, got {self.epsilon!r}")
        check_heads(self.d_model, self.heads)
        check_groups(self.heads, self.heads if self.kv_heads is None else self.kv_heads)
        if self.positions == "rotary" and self.d_k % 2:
            raise ValueError(
                f"rotary turns channels in pairs, and a head of {self.d_model} / {self.heads} = {self.d_k} channels "
                "has one left over; choose heads of even width, or other positions"
            )

    @property
    def d_k(self) -> int:
        """Width of a head."""
        return self.d_model // self.heads

    @property
    def inner(self) -> int:
        """Inner width of the feed-forward part: d_ff, or what stands for None."""
        if self.d_ff is not None:
            return self.d_ff
        return -(-8 * self.d_model // 3 // 32) * 32 if self.activation == "swiglu" else 4 * self.d_model

    @classmethod
    def modern(cls: type[C], *vocabularies: int, **changes: Any) -> C:
        """Pre-norm, RMSNorm, SwiGLU, rotary places, no biases, no dropout; with changes.

        >>> DecoderConfig.modern(1000, d_model=64).activation
        'swiglu'
        """
        return cls(*vocabularies, **{**MODERN, **changes})


@dataclass(frozen=True)
class DecoderConfig(Common):
    """A decoder alone, as GPT: every token sees those before it.

    >>> DecoderConfig(1000, d_model=256, heads=24)
    Traceback (most recent call last):
    ValueError: heads must divide the channels, got 24 heads for 256 channels; the nearest counts that do are
    16 (d_k = 16) and 32 (d_k = 8)
    """

    vocabulary: int

    def __post_init__(self) -> None:
        check_whole(self, "vocabulary")
        super().__post_init__()


@dataclass(frozen=True)
class EncoderConfig(Common):
    """An encoder alone, as BERT: every token sees all of them.

    embedding_norm      normalise the sum of embedding and place before the first layer, as BERT
    """

    vocabulary: int
    embedding_norm: bool = False

    def __post_init__(self) -> None:
        check_whole(self, "vocabulary")
        check_flag(self, "embedding_norm")
        super().__post_init__()


@dataclass(frozen=True)
class Seq2SeqConfig(Common):
    """Encoder and decoder, as published for translation.

    encoder_layers, decoder_layers      `layers` of each unless given
    """

    source_vocabulary: int
    target_vocabulary: int
    encoder_layers: int | None = None
    decoder_layers: int | None = None

    def __post_init__(self) -> None:
        check_whole(self, "source_vocabulary")
        check_whole(self, "target_vocabulary")
        for name in ("encoder_layers", "decoder_layers"):
            if getattr(self, name) is not None:
                check_whole(self, name)
        super().__post_init__()


@dataclass(frozen=True)
class RecurrentConfig:
    """The LSTM that transformers are compared with.

    d_model     width of embeddings and states
    layers      of the encoder and of the decoder
    dropout     share dropped from embeddings, between layers and before the output layer
    attention   whether the decoder looks back at the source (Bahdanau 2014) or has the last state alone
    context     the longest sequence it is asked to write
    tied        whether the output layer is the target embedding's table
    """

    source_vocabulary: int
    target_vocabulary: int
    d_model: int = 256
    layers: int = 2
    dropout: float = 0.1
    attention: bool = False
    context: int = 512
    tied: bool = True

    def __post_init__(self) -> None:
        for name in ("source_vocabulary", "target_vocabulary", "d_model", "layers", "context"):
            check_whole(self, name)
        check_share(self, "dropout")
        check_flag(self, "attention")
        check_flag(self, "tied")
        if self.d_model % 2:
            raise ValueError(
                f"the encoder reads in both directions, half of d_model each: d_model must be even, got {self.d_model}"
            )


def check_whole(config: object, name: str) -> None:
    value = getattr(config, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {value!r} of type {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


def check_share(config: object, name: str) -> None:
    value = getattr(config, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    if not 0 <= value < 1:
        raise ValueError(f"{name} is the share that is dropped, at least 0 and less than 1, got {value}")


def check_flag(config: object, name: str) -> None:
    value = getattr(config, name)
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_choice(config: object, name: str, choices: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
