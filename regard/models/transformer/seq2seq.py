"""Encoder and decoder, as published for translation: the source is read whole, the target written token by token."""

from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.models.transformer.config import Seq2SeqConfig
from regard.models.transformer.decoding_cache import DecodingCache
from regard.models.transformer.embedding import Embedding, check_lengths
from regard.models.transformer.initialization import shrink_residuals
from regard.models.transformer.layer import Layer, norm_of
from regard.models.transformer.loss import cross_entropy


class Seq2Seq(nn.Module):
    """Source ids (B, S) and target ids (B, T) → scores of the next target token (B, T, V).

    >>> import torch
    >>> model = Seq2Seq(Seq2SeqConfig(100, 50, d_model=32, heads=4, layers=2))
    >>> model(torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2]])).shape
    torch.Size([1, 2, 50])
    """

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = SourceEncoder(config)
        self.decoder = TargetDecoder(config)

    def forward(
        self,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        source_lengths: Int[Tensor, " b"] | None = None,
        target_lengths: Int[Tensor, " b"] | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Scores of the token after each of the target's; lengths (B,) say how many of each row are real."""
        return self.decode(target, self.encode(source, source_lengths), source_lengths, target_lengths)

    def encode(
        self, source: Int[Tensor, "b s"], source_lengths: Int[Tensor, " b"] | None = None
    ) -> Float[Tensor, "b s d"]:
        """What the decoder attends to: a vector for each token of the source, (B, S, D)."""
        memory: Tensor = self.encoder(source, source_lengths)
        return memory

    def decode(
        self,
        target: Int[Tensor, "b t"],
        memory: Float[Tensor, "b s d"],
        source_lengths: Int[Tensor, " b"] | None = None,
        target_lengths: Int[Tensor, " b"] | None = None,
        cache: DecodingCache | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Scores (B, T, V) of the tokens after each of the target's, given what `encode` returned.

        cache       `model.new_cache(…)`: target holds the tokens after what is in it. The keys and values of the source
                    are computed at its first step
        """
        return F.linear(self.decoder(target, memory, source_lengths, target_lengths, cache), self.table)

    def loss(
        self,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        targets: Int[Tensor, "b t"],
        source_lengths: Int[Tensor, " b"] | None = None,
        target_lengths: Int[Tensor, " b"] | None = None,
        **options: Any,
    ) -> Float[Tensor, ""]:
        """The cross-entropy of targets (B, T), the tokens after each of `target`; options as `cross_entropy`."""
        states = self.decoder(target, self.encode(source, source_lengths), source_lengths, target_lengths)
        return cross_entropy(states, self.table, targets, **options)

    @property
    def table(self) -> Float[Tensor, "v d"]:
        """The weights of the output layer (V, D): the target embedding's own when tied."""
        return self.decoder.embedding.weight if self.decoder.head is None else self.decoder.head.weight

    def new_cache(self, batch: int, length: int, before: Int[Tensor, " b"] | None = None) -> DecodingCache:
        """An empty cache for `batch` targets of at most `length` tokens."""
        return DecodingCache(
            self.config, len(self.decoder.layers), batch, length, self.decoder.embedding.weight, before
        )


class SourceEncoder(nn.Module):
    """The encoder's half: source ids (B, S) → vectors (B, S, D)."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.context = config.context
        self.embedding = Embedding(config, config.source_vocabulary)
        count = config.layers if config.encoder_layers is None else config.encoder_layers
        self.layers = nn.ModuleList(Layer(config) for _ in range(count))
        self.norm = norm_of(config) if config.norm == "pre" else None
        shrink_residuals(self.layers)

    def forward(self, source: Int[Tensor, "b s"], lengths: Int[Tensor, " b"] | None = None) -> Float[Tensor, "b s d"]:
        check_lengths(source, lengths, self.context)
        mask = None if lengths is None else padding(lengths)
        x = self.embedding(source)
        for layer in self.layers:
            x = layer(x, mask=mask)
        return x if self.norm is None else self.norm(x)


class TargetDecoder(nn.Module):
    """The decoder's half: target ids (B, T) and the source's vectors → vectors (B, T, D) to be scored."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.context, self.turned = config.context, config.positions == "rotary"
        self.embedding = Embedding(config, config.target_vocabulary)
        count = config.layers if config.decoder_layers is None else config.decoder_layers
        self.layers = nn.ModuleList(Layer(config, causal=True, cross=True) for _ in range(count))
        self.norm = norm_of(config) if config.norm == "pre" else None
        self.head = None if config.tied else nn.Linear(config.d_model, config.target_vocabulary, bias=False)
        shrink_residuals(self.layers)

    def forward(
        self,
        target: Int[Tensor, "b t"],
        memory: Float[Tensor, "b s d"],
        source_lengths: Int[Tensor, " b"] | None = None,
        target_lengths: Int[Tensor, " b"] | None = None,
        cache: DecodingCache | None = None,
    ) -> Float[Tensor, "b t d"]:
        check_lengths(target, target_lengths, self.context, 0 if cache is None else cache.length)
        if memory.shape[0] != target.shape[0]:
            raise ValueError(f"source and target must have as many rows, got {memory.shape[0]} and {target.shape[0]}")
        source_mask = None if source_lengths is None else padding(source_lengths)
        if cache is None:
            x = self.embedding(target)
            for layer in self.layers:
                x = layer(x, source=memory, source_mask=source_mask)
            return x if self.norm is None else self.norm(x)
        if not cache.sources:
            cache.sources = [layer.cross.project_context(memory) for layer in self.layers]  # type: ignore[union-attr, operator]
        new = target.shape[1]
        places, mask = cache.places(new), cache.mask(new)
        turned = {"positions": places} if self.turned else {}
        x = self.embedding(target, places)
        for layer, kept, known in zip(self.layers, cache.caches, cache.sources, strict=True):
            x = layer(x, source=known, source_mask=source_mask, mask=mask, cache=kept, **turned)
        return x if self.norm is None else self.norm(x)
