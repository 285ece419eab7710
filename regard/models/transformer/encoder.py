"""Encoder, as in BERT: every token attends to all tokens, and masked tokens are predicted from both sides."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.types import Device

from regard.attention.masks import padding
from regard.models.transformer.config import EncoderConfig, TransformerConfig
from regard.models.transformer.embedding import Embedding, Lengths, check_lengths
from regard.models.transformer.feedforward import apply_activation
from regard.models.transformer.layer import Layer, build_norm, reset_children, shrink_residuals
from regard.models.transformer.loss import cross_entropy


class EncoderStack(nn.Module):
    """Token ids (B, L) → a vector for each token (B, L, D): embedding, layers without a causal mask, final norm."""

    def __init__(
        self, config: TransformerConfig, vocabulary: int, layers: int, *, embedding_norm: bool = False,
        device: Device = None, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.context = config.context
        self.embedding = Embedding(config, vocabulary, **factory)
        self.embedding_norm = build_norm(config, **factory) if embedding_norm else None
        self.layers = nn.ModuleList(Layer(config, **factory) for _ in range(layers))
        self.norm = build_norm(config, **factory) if config.norm == "pre" else None
        shrink_residuals(self.layers)

    def reset_parameters(self) -> None:
        """Initialise all parameters as the constructor does."""
        reset_children(self)
        shrink_residuals(self.layers)

    def forward(self, tokens: Int[Tensor, "b l"], lengths: Lengths = None) -> Float[Tensor, "b l d"]:
        """Return the states (B, L, D).

        lengths     (B,) number of real tokens in each row; no token attends to padding
        """
        check_lengths(tokens, lengths, self.context)
        mask = None if lengths is None else padding(lengths)
        x = self.embedding(tokens)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        for layer in self.layers:
            x = layer(x, mask=mask)
        return x if self.norm is None else self.norm(x)


class Encoder(EncoderStack):
    """Token ids (B, L) → a vector for each (B, L, D); `.logits` returns scores of the vocabulary (B, L, V).

    config          sizes and options
    device, dtype   of the parameters, as in every layer of torch

    >>> model = Encoder(EncoderConfig(100, d_model=32, heads=4, layers=2))
    >>> tokens = torch.tensor([[1, 2, 3], [4, 5, 0]])
    >>> model(tokens, lengths=torch.tensor([3, 2])).shape, model.logits(tokens).shape
    (torch.Size([2, 3, 32]), torch.Size([2, 3, 100]))
    """

    def __init__(self, config: EncoderConfig, *, device: Device = None, dtype: torch.dtype | None = None) -> None:
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(config, config.vocabulary, config.layers, embedding_norm=config.embedding_norm, **factory)
        self.config = config
        self.guess = MaskedTokenHead(config, self.embedding.weight)

    def logits(self, tokens: Int[Tensor, "b l"], lengths: Lengths = None) -> Float[Tensor, "b l v"]:
        """Return scores of every token of the vocabulary at each place, (B, L, V), to predict masked tokens."""
        return F.linear(self.guess(self(tokens, lengths)), self.table, self.guess.bias)

    def loss(
        self, tokens: Int[Tensor, "b l"], targets: Int[Tensor, "b l"], lengths: Lengths = None, **options: Any
    ) -> Float[Tensor, ""]:
        """Return the cross-entropy of masked tokens: targets (B, L), with -100 where no token was masked.

        Only the places with a target are scored. Options as in `cross_entropy`.
        """
        states, masked = self(tokens, lengths), targets != options.get("ignore", -100)
        return cross_entropy(self.guess(states[masked]), self.table, targets[masked], bias=self.guess.bias, **options)

    @property
    def table(self) -> Float[Tensor, "v d"]:
        """The weights of the output layer (V, D): those of the embedding when they are tied."""
        return self.embedding.weight if self.guess.weight is None else self.guess.weight


class MaskedTokenHead(nn.Module):
    """BERT's projection, activation and norm between the states and the output layer, and the output layer's bias."""

    def __init__(self, config: EncoderConfig, table: Float[Tensor, "v d"]) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": table.device, "dtype": table.dtype}
        self.activation = config.activation
        self.dense = nn.Linear(config.d_model, config.d_model, **factory)
        self.norm = build_norm(config, **factory)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary, **factory))
        self.weight = None if config.tied else nn.Parameter(torch.empty_like(table))
        self._reset_output_layer()

    def reset_parameters(self) -> None:
        """Initialise the projection as nn.Linear does, the weights of the output layer normally, its bias with 0."""
        reset_children(self)
        self._reset_output_layer()

    def _reset_output_layer(self) -> None:
        nn.init.zeros_(self.bias)
        if self.weight is not None:
            nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        hidden: Tensor = self.dense(x)
        hidden = F.gelu(hidden) if self.activation == "swiglu" else apply_activation(hidden, self.activation)
        return self.norm(hidden)
