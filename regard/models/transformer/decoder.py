"""Decoder, as in GPT: every token attends to itself and to earlier tokens, and predicts the next one."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.types import Device

from regard.attention.masks import padding
from regard.models.transformer.config import DecoderConfig, TransformerConfig
from regard.models.transformer.decoder_layer_caches import DecodingCache
from regard.models.transformer.embedding import Embedding, Lengths, check_lengths
from regard.models.transformer.layer import Layer, build_norm, reset_children, shrink_residuals
from regard.models.transformer.loss import cross_entropy


class DecoderStack(nn.Module):
    """Embedding, causal layers, final norm and output layer; with `cross`, every layer also attends to a source."""

    def __init__(
        self, config: TransformerConfig, vocabulary: int, layers: int, *, cross: bool = False, device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.config = config
        self.embedding = Embedding(config, vocabulary, **factory)
        self.layers = nn.ModuleList(Layer(config, causal=True, cross=cross, **factory) for _ in range(layers))
        self.norm = build_norm(config, **factory) if config.norm == "pre" else None
        self.head = None if config.tied else nn.Linear(config.d_model, vocabulary, bias=False, **factory)
        shrink_residuals(self.layers)

    def reset_parameters(self) -> None:
        """Initialise all parameters as the constructor does."""
        reset_children(self)
        shrink_residuals(self.layers)

    def states(
        self, tokens: Int[Tensor, "b l"], lengths: Lengths = None, cache: DecodingCache | None = None,
        memory: Float[Tensor, "b s d"] | None = None, source_lengths: Lengths = None,
    ) -> Float[Tensor, "b l d"]:  # fmt: skip
        """Return the vectors (B, L, D) that the output layer scores.

        memory      the encoded source; its keys and values are computed once per cache
        """
        check_lengths(tokens, lengths, self.config.context, 0 if cache is None else cache.length)
        count, new = len(self.layers), tokens.shape[1]
        sources: list[Any] = [memory] * count
        if cache is not None and memory is not None:
            if not cache.sources:
                cache.sources = [layer.cross.project_context(memory) for layer in self.layers]  # type: ignore[union-attr, operator]
            sources = cache.sources
        positions = 0 if cache is None else cache.positions(new)
        mask = None if cache is None else cache.mask(new)
        source_mask = None if source_lengths is None else padding(source_lengths)
        rotary = {"positions": positions} if self.config.positions == "rotary" else {}
        x = self.embedding(tokens, positions)
        caches = [None] * count if cache is None else cache.layers
        for layer, layer_cache, source in zip(self.layers, caches, sources, strict=True):
            x = layer(x, source=source, source_mask=source_mask, mask=mask, cache=layer_cache, **rotary)
        return x if self.norm is None else self.norm(x)

    @property
    def table(self) -> Float[Tensor, "v d"]:
        """The weights of the output layer (V, D): those of the embedding when they are tied."""
        return self.embedding.weight if self.head is None else self.head.weight

    def new_cache(self, batch: int, length: int, before: Int[Tensor, " b"] | None = None) -> DecodingCache:
        """Return an empty cache for `batch` rows of at most `length` tokens; `before` as in `DecodingCache`."""
        return DecodingCache(self.config, len(self.layers), batch, length, self.embedding.weight, before)


class Decoder(DecoderStack):
    """Token ids (B, L) → scores of the next token (B, L, V).

    config          sizes and options
    device, dtype   of the parameters, as in every layer of torch

    >>> model = Decoder(DecoderConfig(100, d_model=32, heads=4, layers=2))
    >>> model(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 100])
    """

    config: DecoderConfig

    def __init__(self, config: DecoderConfig, *, device: Device = None, dtype: torch.dtype | None = None) -> None:
        super().__init__(config, config.vocabulary, config.layers, device=device, dtype=dtype)

    def forward(
        self, tokens: Int[Tensor, "b l"], lengths: Lengths = None, cache: DecodingCache | None = None
    ) -> Float[Tensor, "b l v"]:
        """Return the scores of the token after each token.

        lengths     (B,) number of real tokens in each row. Padding comes at the end, where no real token attends to it;
                    ignore the scores at its places
        cache       from `model.new_cache(…)`: `tokens` then follow the tokens in the cache
        """
        return F.linear(self.states(tokens, lengths, cache), self.table)

    def loss(
        self, tokens: Int[Tensor, "b l"], targets: Int[Tensor, "b l"], lengths: Lengths = None, **options: Any
    ) -> Float[Tensor, ""]:
        """Return the cross-entropy of targets (B, L), the token after each; options as in `cross_entropy`.

        Faster than `F.cross_entropy(model(tokens), …)`, and without the memory for all scores.
        """
        return cross_entropy(self.states(tokens, lengths), self.table, targets, **options)
