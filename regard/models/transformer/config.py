"""Configurations of models: frozen dataclasses, checked when they are created, stored with the weights.

The defaults are those of the original publication: post-norm, ReLU, sinusoidal positions. `modern(…)` has the defaults
that are usual today: pre-norm, RMSNorm, SwiGLU, rotary positions, no biases.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from regard.attention import check_groups, check_heads

Norm = Literal["post", "pre"]
Normalisation = Literal["layer", "rms"]
Activation = Literal["relu", "gelu", "gelu_tanh", "swiglu"]
Positions = Literal["sinusoidal", "learned", "rotary", "alibi", "none"]

C = TypeVar("C", bound="TransformerConfig")

MODERN: dict[str, Any] = {
    "norm": "pre",
    "normalisation": "rms",
    "activation": "swiglu",
    "positions": "rotary",
    "bias": False,
    "dropout": 0.0,
}


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Options that all transformers share.

    d_model             D, the width of a token's vector
    heads, kv_heads     H query heads and H_kv key/value heads; kv_heads=None means H, fewer are grouped-query attention
    layers              number of layers
    d_ff                inner width of feed-forward; None means 4·D, and for SwiGLU 8/3·D (as many weights) rounded up
                        to a multiple of 32
    context             largest number of tokens
    norm                "post": norm(x + sublayer(x)), as published; "pre": x + sublayer(norm(x)) and a final norm
    normalisation       "layer" or "rms"
    epsilon             added to the variance
    activation          "relu", "gelu", "gelu_tanh" (the approximation that GPT-2 uses) or "swiglu"
    positions           "sinusoidal" or "learned", added to the vectors; "rotary" or "alibi", inside attention; "none"
    dropout             probability of dropping values of the embedding and of every sublayer's output in training
    attention_dropout   probability of dropping attention weights; above 0, no fused kernel can be used
    tied                whether the output layer uses the weights of the embedding
    bias                whether projections have a bias

    >>> from regard.models import EncoderConfig
    >>> EncoderConfig(1000, d_model=64, heads=4).d_k
    16
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
        check_whole(self, "d_model", "heads", "layers", "context")
        check_whole(self, "kv_heads", "d_ff", optional=True)
        check_choice(self, norm=Norm, normalisation=Normalisation, activation=Activation, positions=Positions)
        check_probability(self, "dropout", "attention_dropout")
        check_flag(self, "tied", "bias")
        if not isinstance(self.epsilon, float) or not 0 < self.epsilon < 1:
            raise ValueError(f"epsilon must be a small positive number, got {self.epsilon!r}")
        check_heads(self.d_model, self.heads)
        check_groups(self.heads, self.heads if self.kv_heads is None else self.kv_heads)
        if self.positions == "rotary" and self.d_k % 2:
            raise ValueError(
                f"rotary positions need heads of even width, got {self.d_model} / {self.heads} = {self.d_k} channels; "
                "choose another number of heads, or other positions"
            )

    @property
    def d_k(self) -> int:
        """Width of a head."""
        return self.d_model // self.heads

    @property
    def inner(self) -> int:
        """Inner width of feed-forward: d_ff, or its default where d_ff is None."""
        if self.d_ff is not None:
            return self.d_ff
        return -(-8 * self.d_model // 3 // 32) * 32 if self.activation == "swiglu" else 4 * self.d_model

    @classmethod
    def modern(cls: type[C], *vocabularies: int, **changes: Any) -> C:
        """Return a configuration with pre-norm, RMSNorm, SwiGLU, rotary positions, no biases and no dropout.

        >>> DecoderConfig.modern(1000, d_model=64).activation
        'swiglu'
        """
        return cls(*vocabularies, **{**MODERN, **changes})


@dataclass(frozen=True)
class DecoderConfig(TransformerConfig):
    """Configuration of a `Decoder`, as in GPT: every token attends to itself and to earlier tokens.

    vocabulary  number of tokens

    The other fields are those of `TransformerConfig`.

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
class EncoderConfig(TransformerConfig):
    """Configuration of an `Encoder`, as in BERT: every token attends to all tokens.

    vocabulary      number of tokens
    embedding_norm  normalise the sum of embedding and position before the first layer, as BERT does

    The other fields are those of `TransformerConfig`.

    >>> EncoderConfig(1000, d_model=64).inner
    256
    """

    vocabulary: int
    embedding_norm: bool = False

    def __post_init__(self) -> None:
        check_whole(self, "vocabulary")
        check_flag(self, "embedding_norm")
        super().__post_init__()


@dataclass(frozen=True)
class Seq2SeqConfig(TransformerConfig):
    """Configuration of a `Seq2Seq`, the encoder-decoder for translation.

    source_vocabulary, target_vocabulary    number of tokens of each language
    encoder_layers, decoder_layers          number of layers of each; None means `layers`

    The other fields are those of `TransformerConfig`.

    >>> Seq2SeqConfig(1000, 800, layers=6, decoder_layers=2).decoder_layers
    2
    """

    source_vocabulary: int
    target_vocabulary: int
    encoder_layers: int | None = None
    decoder_layers: int | None = None

    def __post_init__(self) -> None:
        check_whole(self, "source_vocabulary", "target_vocabulary")
        check_whole(self, "encoder_layers", "decoder_layers", optional=True)
        super().__post_init__()


@dataclass(frozen=True)
class RecurrentConfig:
    """Configuration of a `Recurrent`, the LSTM network that transformers are compared with.

    source_vocabulary, target_vocabulary    number of tokens of each language
    d_model                                 width of embeddings and states
    layers                                  number of layers of the encoder and of the decoder
    dropout                                 probability of dropping values of embeddings, between layers and before the
                                            output layer
    attention                               whether the decoder attends to the source (Bahdanau 2014) or has only the
                                            encoder's last state
    context                                 largest number of tokens
    tied                                    whether the output layer uses the weights of the target embedding

    >>> RecurrentConfig(1000, 800, attention=True).layers
    2
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
        check_whole(self, "source_vocabulary", "target_vocabulary", "d_model", "layers", "context")
        check_probability(self, "dropout")
        check_flag(self, "attention", "tied")
        if self.d_model % 2:
            raise ValueError(f"d_model must be even, half of it for each direction of the encoder, got {self.d_model}")


def check_whole(config: object, *names: str, optional: bool = False) -> None:
    """Raise unless the fields `names` of `config` are whole numbers of at least 1, or None if `optional`."""
    for name in names:
        value = getattr(config, name)
        if optional and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number, got {value!r} of type {type(value).__name__}")
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")


def check_probability(config: object, *names: str) -> None:
    """Raise unless the fields `names` of `config` are numbers, at least 0 and less than 1."""
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
        if not 0 <= value < 1:
            raise ValueError(f"{name} must be at least 0 and less than 1, got {value}")


def check_flag(config: object, *names: str) -> None:
    """Raise unless the fields `names` of `config` are True or False."""
    for name in names:
        if not isinstance(value := getattr(config, name), bool):
            raise TypeError(f"{name} must be True or False, got {value!r}")


def check_choice(config: object, **choices: Any) -> None:
    """Raise unless each field of `config` has one of the values of its Literal type in `choices`."""
    for name, kind in choices.items():
        if (value := getattr(config, name)) not in get_args(kind):
            raise ValueError(f"{name} must be one of {', '.join(map(repr, get_args(kind)))}, got {value!r}")
