"""Encoder-decoder transformer for translation: the source is encoded at once, the target decoded token by token."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.types import Device

from regard.models.transformer.config import Seq2SeqConfig
from regard.models.transformer.decoder import DecoderStack
from regard.models.transformer.decoder_layer_caches import DecodingCache
from regard.models.transformer.embedding import Lengths
from regard.models.transformer.encoder import EncoderStack
from regard.models.transformer.loss import cross_entropy


class Seq2Seq(nn.Module):
    """Source ids (B, S) and target ids (B, T) → scores of the next target token (B, T, V).

    config          sizes and options
    device, dtype   of the parameters, as in every layer of torch

    >>> model = Seq2Seq(Seq2SeqConfig(100, 50, d_model=32, heads=4, layers=2))
    >>> model(torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2]])).shape
    torch.Size([1, 2, 50])
    """

    def __init__(self, config: Seq2SeqConfig, *, device: Device = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.config = config
        encoder_layers = config.layers if config.encoder_layers is None else config.encoder_layers
        decoder_layers = config.layers if config.decoder_layers is None else config.decoder_layers
        self.encoder = EncoderStack(config, config.source_vocabulary, encoder_layers, **factory)
        self.decoder = TargetDecoder(config, config.target_vocabulary, decoder_layers, cross=True, **factory)

    def reset_parameters(self) -> None:
        """Initialise all parameters as the constructor does."""
        self.encoder.reset_parameters()
        self.decoder.reset_parameters()

    def forward(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"], source_lengths: Lengths = None,
        target_lengths: Lengths = None,
    ) -> Float[Tensor, "b t v"]:  # fmt: skip
        """Return the scores of the token after each target token; lengths (B,) count the real tokens of each row."""
        return self.decode(target, self.encode(source, source_lengths), source_lengths, target_lengths)

    def encode(self, source: Int[Tensor, "b s"], source_lengths: Lengths = None) -> Float[Tensor, "b s d"]:
        """Return a vector for each source token, (B, S, D), for the decoder to attend to."""
        return self.encoder(source, source_lengths)

    def decode(
        self, target: Int[Tensor, "b t"], memory: Float[Tensor, "b s d"], source_lengths: Lengths = None,
        target_lengths: Lengths = None, cache: DecodingCache | None = None,
    ) -> Float[Tensor, "b t v"]:  # fmt: skip
        """Return the scores (B, T, V) of the token after each target token.

        memory      the result of `encode`
        cache       from `model.new_cache(…)`: `target` then follows the tokens in the cache
        """
        return F.linear(self.decoder(target, memory, source_lengths, target_lengths, cache), self.table)

    def loss(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"], targets: Int[Tensor, "b t"],
        source_lengths: Lengths = None, target_lengths: Lengths = None, **options: Any,
    ) -> Float[Tensor, ""]:  # fmt: skip
        """Return the cross-entropy of targets (B, T), the tokens after `target`; options as in `cross_entropy`."""
        states = self.decoder(target, self.encode(source, source_lengths), source_lengths, target_lengths)
        return cross_entropy(states, self.table, targets, **options)

    @property
    def table(self) -> Float[Tensor, "v d"]:
        """The weights of the output layer (V, D): those of the target embedding when they are tied."""
        return self.decoder.table

    def new_cache(self, batch: int, length: int, before: Int[Tensor, " b"] | None = None) -> DecodingCache:
        """Return an empty cache for `batch` targets of at most `length` tokens; `before` as in `DecodingCache`."""
        return self.decoder.new_cache(batch, length, before)


class TargetDecoder(DecoderStack):
    """Target ids (B, T) and the encoded source (B, S, D) → vectors (B, T, D) for the output layer."""

    def forward(
        self, target: Int[Tensor, "b t"], memory: Float[Tensor, "b s d"], source_lengths: Lengths = None,
        target_lengths: Lengths = None, cache: DecodingCache | None = None,
    ) -> Float[Tensor, "b t d"]:  # fmt: skip
        rows = len(memory), len(target)
        if rows[0] != rows[1]:
            raise ValueError(f"source and target must have the same number of rows, got {rows[0]} and {rows[1]}")
        return self.states(target, target_lengths, cache, memory, source_lengths)
