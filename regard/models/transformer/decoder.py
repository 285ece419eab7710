"""A decoder alone, as GPT: every token sees itself and those before it, and each predicts the next."""

from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.transformer.config import DecoderConfig
from regard.models.transformer.decoding_cache import DecodingCache
from regard.models.transformer.embedding import Embedding, check_lengths
from regard.models.transformer.initialization import shrink_residuals
from regard.models.transformer.layer import Layer, norm_of
from regard.models.transformer.loss import cross_entropy


class Decoder(nn.Module):
    """Token ids (B, L) → scores of the next token (B, L, V).

    >>> import torch
    >>> model = Decoder(DecoderConfig(100, d_model=32, heads=4, layers=2))
    >>> model(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 100])
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config, config.vocabulary)
        self.layers = nn.ModuleList(Layer(config, causal=True) for _ in range(config.layers))
        self.norm = norm_of(config) if config.norm == "pre" else None
        self.head = None if config.tied else nn.Linear(config.d_model, config.vocabulary, bias=False)
        shrink_residuals(self.layers)

    def forward(
        self, tokens: Int[Tensor, "b l"], lengths: Int[Tensor, " b"] | None = None, cache: DecodingCache | None = None
    ) -> Float[Tensor, "b l v"]:
        """Scores of the token after each.

        lengths     (B,) how many tokens of each row are real. The rest stand at the end, where no real token sees
                    them: what comes out at their places is to be dropped
        cache       `model.new_cache(…)`: tokens are then those after what is in it
        """
        return F.linear(self.states(tokens, lengths, cache), self.table)

    def states(
        self, tokens: Int[Tensor, "b l"], lengths: Int[Tensor, " b"] | None = None, cache: DecodingCache | None = None
    ) -> Float[Tensor, "b l d"]:
        """The vectors (B, L, D) that the output layer scores."""
        check_lengths(tokens, lengths, self.config.context, 0 if cache is None else cache.length)
        new = tokens.shape[1]
        places = 0 if cache is None else cache.places(new)
        mask = None if cache is None else cache.mask(new)
        x = self.embedding(tokens, places)
        turned = {"positions": places} if self.config.positions == "rotary" else {}
        caches = [None] * len(self.layers) if cache is None else cache.caches
        for layer, kept in zip(self.layers, caches, strict=True):
            x = layer(x, mask=mask, cache=kept, **turned)
        return x if self.norm is None else self.norm(x)

    def loss(
        self,
        tokens: Int[Tensor, "b l"],
        targets: Int[Tensor, "b l"],
        lengths: Int[Tensor, " b"] | None = None,
        **options: Any,
    ) -> Float[Tensor, ""]:
        """The cross-entropy of the token after each, targets (B, L); options as `regard.models.cross_entropy`.

        Faster than `F.cross_entropy(model(tokens), …)`, and without the memory of all scores.
        """
        return cross_entropy(self.states(tokens, lengths), self.table, targets, **options)

    @property
    def table(self) -> Float[Tensor, "v d"]:
        """The weights of the output layer (V, D): the embedding's own when tied."""
        return self.embedding.weight if self.head is None else self.head.weight

    def new_cache(self, batch: int, length: int, before: Int[Tensor, " b"] | None = None) -> DecodingCache:
        """An empty cache for `batch` rows of at most `length` tokens."""
        return DecodingCache(self.config, self.config.layers, batch, length, self.embedding.weight, before)
