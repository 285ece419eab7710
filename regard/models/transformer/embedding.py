"""Token embedding: from token ids to vectors, with positions added where the configuration says so."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.types import Device

from regard.models.transformer.config import TransformerConfig
from regard.nn import Learned, Sinusoidal

Lengths = Int[Tensor, " b"] | None  # number of real tokens in each row; None when no row is padded


class Embedding(nn.Module):
    """Token ids (B, L) → vectors (B, L, D): rows of the table, plus sinusoidal or learned positions.

    With sinusoidal positions the rows are multiplied by √D, as published, so that both summands have the same size.

    >>> from regard.models import DecoderConfig
    >>> Embedding(DecoderConfig(100, d_model=16, heads=2), 100)(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 16])
    """

    def __init__(
        self, config: TransformerConfig, vocabulary: int, device: Device = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.context, self.dropout = config.context, config.dropout
        self.weight = nn.Parameter(torch.empty(vocabulary, config.d_model, device=device, dtype=dtype))
        self.places: Sinusoidal | Learned | None = None
        self.scale = 1.0
        if config.positions == "sinusoidal":
            self.places, self.scale = Sinusoidal(config.d_model), config.d_model**0.5
        elif config.positions == "learned":
            self.places = Learned(config.context, config.d_model, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights from a normal distribution."""
        nn.init.normal_(self.weight, std=1 / self.scale if self.scale != 1 else 0.02)
        if isinstance(self.places, Learned):
            self.places.reset_parameters()

    def forward(self, tokens: Int[Tensor, "b l"], positions: int | Tensor = 0) -> Float[Tensor, "b l d"]:
        """Return vectors of tokens (B, L); `positions` is the position of the first token, or of each (B, L)."""
        x = look_up(self.weight, tokens)
        if self.scale != 1:
            x = x * self.scale
        if self.places is not None:
            x = self.places(x, positions)
        return F.dropout(x, self.dropout) if self.training and self.dropout else x


def look_up(table: Float[Tensor, "v d"], tokens: Int[Tensor, "b l"]) -> Float[Tensor, "b l d"]:
    """Return the rows of an embedding table (V, D) for token ids (B, L)."""
    check_tokens(tokens)
    try:
        return F.embedding(tokens, table)
    except IndexError:
        raise ValueError(
            f"token ids must be in 0 … {len(table) - 1}, the vocabulary of this model; got ids in "
            f"{int(tokens.min())} … {int(tokens.max())}: was the text encoded by another tokenizer?"
        ) from None


def check_tokens(tokens: Tensor) -> None:
    """Raise unless tokens are whole numbers of shape (B, L)."""
    if not isinstance(tokens, Tensor) or tokens.dtype not in (torch.int64, torch.int32):
        kind = tokens.dtype if isinstance(tokens, Tensor) else type(tokens).__name__
        raise TypeError(f"tokens must be a tensor of whole numbers (B, L), got {kind}")
    if tokens.dim() != 2:
        raise ValueError(f"tokens must have shape (B, L), got {tuple(tokens.shape)}; use tokens[None] for one row")


def check_lengths(tokens: Tensor, lengths: Tensor | None, context: int, before: int = 0) -> None:
    """Raise unless `before` tokens and tokens (B, L) fit into the context, and lengths (B,) are in 0 … L."""
    check_tokens(tokens)
    if before + tokens.shape[1] > context:
        after = f" after {before} earlier ones" if before else ""
        raise ValueError(
            f"{tokens.shape[1]} tokens{after} exceed the context of {context}; shorten the text, or build the model "
            "with a larger context"
        )
    if lengths is None:
        return
    if lengths.shape != tokens.shape[:1] or lengths.dtype.is_floating_point or lengths.dtype == torch.bool:
        raise ValueError(
            f"lengths must be whole numbers of shape ({tokens.shape[0]},), the number of real tokens in each row; "
            f"got {lengths.dtype} of shape {tuple(lengths.shape)}"
        )
    if lengths.numel() and not 0 <= int(lengths.min()) <= int(lengths.max()) <= tokens.shape[1]:
        raise ValueError(f"lengths must be in 0 … {tokens.shape[1]}, the width of tokens; got {lengths.tolist()}")
