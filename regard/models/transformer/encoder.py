"""An encoder alone, as BERT: every token sees all the others, and hidden ones are guessed from both sides."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.models.transformer.config import EncoderConfig
from regard.models.transformer.embedding import Embedding, check_lengths
from regard.models.transformer.feedforward import activated
from regard.models.transformer.initialization import shrink_residuals
from regard.models.transformer.layer import Layer, norm_of
from regard.models.transformer.loss import cross_entropy


class Encoder(nn.Module):
    """Token ids (B, L) → a vector for each (B, L, D); `.logits` scores the vocabulary at each place (B, L, V).

    >>> import torch
    >>> model = Encoder(EncoderConfig(100, d_model=32, heads=4, layers=2))
    >>> tokens = torch.tensor([[1, 2, 3], [4, 5, 0]])
    >>> model(tokens, lengths=torch.tensor([3, 2])).shape, model.logits(tokens).shape
    (torch.Size([2, 3, 32]), torch.Size([2, 3, 100]))
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config, config.vocabulary)
        self.embedding_norm = norm_of(config) if config.embedding_norm else None
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = norm_of(config) if config.norm == "pre" else None
        self.guess = Guess(config, self.embedding.weight)
        shrink_residuals(self.layers)

    def forward(self, tokens: Int[Tensor, "b l"], lengths: Int[Tensor, " b"] | None = None) -> Float[Tensor, "b l d"]:
        """States (B, L, D).

        lengths     (B,) how many tokens of each row are real; no token attends to the rest
        """
        check_lengths(tokens, lengths, self.config.context)
        mask = None if lengths is None else padding(lengths)
        x = self.embedding(tokens)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        for layer in self.layers:
            x = layer(x, mask=mask)
        return x if self.norm is None else self.norm(x)

    def logits(self, tokens: Int[Tensor, "b l"], lengths: Int[Tensor, " b"] | None = None) -> Float[Tensor, "b l v"]:
        """Scores of every token of the vocabulary at each place, (B, L, V): for those that were hidden."""
        return F.linear(self.guess(self(tokens, lengths)), self.table, self.guess.bias)

    def loss(
        self,
        tokens: Int[Tensor, "b l"],
        targets: Int[Tensor, "b l"],
        lengths: Int[Tensor, " b"] | None = None,
        **options: Any,
    ) -> Float[Tensor, ""]:
        """The cross-entropy of the hidden tokens, targets (B, L) with -100 for those that were not hidden.

        Only the places with a target are scored. Options as `regard.models.cross_entropy`.
        """
        states, wanted = self(tokens, lengths), targets != options.get("ignore", -100)
        return cross_entropy(self.guess(states[wanted]), self.table, targets[wanted], bias=self.guess.bias, **options)

    @property
    def table(self) -> Float[Tensor, "v d"]:
        """The weights of the output layer (V, D): the embedding's own when tied."""
        return self.embedding.weight if self.guess.weight is None else self.guess.weight


class Guess(nn.Module):
    """What BERT puts between its states and the table: one more projection, activated and normalised; and a bias."""

    def __init__(self, config: EncoderConfig, table: Float[Tensor, "v d"]) -> None:
        super().__init__()
        self.activation = config.activation
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.norm = norm_of(config)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.weight = None if config.tied else nn.Parameter(torch.empty_like(table))
        if self.weight is not None:
            nn.init.normal_(self.weight, std=config.d_model**-0.5)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        hidden: Tensor = self.dense(x)
        hidden = F.gelu(hidden) if self.activation == "swiglu" else activated(hidden, self.activation)
        normed: Tensor = self.norm(hidden)
        return normed
