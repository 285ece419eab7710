"""From token ids to vectors that know their place, and back from vectors to scores over the vocabulary."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.transformer.config import Common
from regard.nn import Learned, Sinusoidal

Places = int | Tensor


class Embedding(nn.Module):
    """Token ids (B, L) → vectors (B, L, D): a row of the table each, and where the configuration says so, its place.

    With sines and cosines the rows are multiplied by √D, as published, so that they are as large as what is added.

    >>> from regard.models import DecoderConfig
    >>> Embedding(DecoderConfig(100, d_model=16, heads=2), 100)(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 16])
    """

    def __init__(self, config: Common, vocabulary: int) -> None:
        super().__init__()
        self.context, self.dropout = config.context, config.dropout
        self.weight = nn.Parameter(torch.empty(vocabulary, config.d_model))
        self.places: Sinusoidal | Learned | None = None
        self.scale = 1.0
        if config.positions == "sinusoidal":
            self.places, self.scale = Sinusoidal(config.d_model), config.d_model**0.5
        elif config.positions == "learned":
            self.places = Learned(config.context, config.d_model)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=1 / self.scale if self.scale != 1 else 0.02)
        if isinstance(self.places, Learned):
            self.places.reset_parameters()

    def forward(self, tokens: Int[Tensor, "b l"], positions: Places = 0) -> Float[Tensor, "b l d"]:
        """Vectors of tokens (B, L) that stand at `positions`: the place of the first, or of each."""
        x = rows(self.weight, tokens)
        if self.scale != 1:
            x = x * self.scale
        if self.places is not None:
            x = self.places(x, positions)
        return F.dropout(x, self.dropout) if self.training and self.dropout else x


def rows(table: Float[Tensor, "v d"], tokens: Int[Tensor, "b l"]) -> Float[Tensor, "b l d"]:
    """The rows of an embedding's table (V, D) for token ids (...)."""
    check_tokens(tokens)
    try:
        return F.embedding(tokens, table)
    except IndexError:
        raise ValueError(
            f"token ids must lie in 0 … {len(table) - 1}, the vocabulary of this model; got some in "
            f"{int(tokens.min())} … {int(tokens.max())}: was the text encoded by another tokenizer?"
        ) from None


def check_tokens(tokens: Tensor) -> None:
    if not isinstance(tokens, Tensor) or tokens.dtype not in (torch.int64, torch.int32):
        got = tokens.dtype if isinstance(tokens, Tensor) else type(tokens).__name__
        raise TypeError(f"tokens must be a tensor of whole numbers (B, L), got {got}")
    if tokens.dim() != 2:
        raise ValueError(f"tokens must have shape (B, L), got {tuple(tokens.shape)}; write tokens[None] for one row")


def check_lengths(tokens: Tensor, lengths: Tensor | None, context: int, before: int = 0) -> None:
    """Raise unless tokens (B, L) after `before` others fit the context and lengths (B,) count some of each row."""
    check_tokens(tokens)
    if before + tokens.shape[1] > context:
        after = f" after {before} earlier ones" if before else ""
        raise ValueError(
            f"{tokens.shape[1]} tokens{after} are more than the context of {context}; shorten them, or build the "
            "model with a larger context"
        )
    if lengths is None:
        return
    if lengths.shape != tokens.shape[:1] or lengths.dtype.is_floating_point or lengths.dtype == torch.bool:
        raise ValueError(
            f"lengths must be whole numbers of shape ({tokens.shape[0]},), how many tokens of each row are real; "
            f"got {lengths.dtype} of shape {tuple(lengths.shape)}"
        )
    if lengths.numel() and not 0 <= int(lengths.min()) <= int(lengths.max()) <= tokens.shape[1]:
        raise ValueError(f"lengths must lie in 0 … {tokens.shape[1]}, the width of tokens; got {lengths.tolist()}")
