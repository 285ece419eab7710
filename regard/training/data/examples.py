"""Examples as tensors, batch by batch: what a model is given, and what it is asked."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from regard.training.tokenizer import BEGIN, END, MASK, PAD, SPECIAL

NOT_ASKED = -100


class Batch(NamedTuple):
    """The tensors of a batch, and how many tokens it asks for."""

    tensors: tuple[Tensor | None, ...]
    asked: int

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return Batch(tuple(None if t is None else t.to(device) for t in self.tensors), self.asked)


class Objective(nn.Module):
    """The loss of a batch, added up over the tokens that are asked for, in nats.

    The sum, since a mean of means over ranks or rounds would weigh short texts more.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tensors: Tensor | None) -> Tensor:
        """The model's own loss of the tensors of a batch."""
        loss: Tensor = self.model.loss(*tensors, ignore=NOT_ASKED, reduction="sum")  # type: ignore[operator]
        return loss


class Examples(Protocol):
    """What the loop needs to know about data."""

    lengths: list[int]

    def batch(self, places: Sequence[int], part: slice, key: Sequence[int]) -> Batch:
        """The examples `places[part]`; the key makes what is drawn at random the same in every part."""


def padded(rows: list[list[int]], filler: int = PAD) -> tuple[Tensor, Tensor | None]:
    """Rows as one tensor, and their lengths (None when all are the same: masks would be of no use)."""
    longest = max(map(len, rows))
    tensor = torch.tensor([row + [filler] * (longest - len(row)) for row in rows])
    if all(len(row) == longest for row in rows):
        return tensor, None
    return tensor, torch.tensor([len(row) for row in rows])


class PairExamples:
    """Source and target of each pair; the target begins with <begin> and is to be ended with <end>."""

    def __init__(self, sources: list[list[int]], targets: list[list[int]]) -> None:
        self.sources = sources
        self.targets = targets
        # Sources of one length together, and among them targets of about one length.
        self.lengths = [1000 * len(source) + len(target) for source, target in zip(sources, targets, strict=True)]

    def batch(self, places: Sequence[int], part: slice, key: Sequence[int]) -> Batch:
        """The examples `places[part]`; nothing is random."""
        mine = places[part]
        source, source_lengths = padded([self.sources[i] for i in mine])
        known, lengths = padded([[BEGIN, *self.targets[i]] for i in mine])
        asked, _ = padded([[*self.targets[i], END] for i in mine], NOT_ASKED)
        return Batch((source, known, asked, source_lengths, lengths), sum(len(self.targets[i]) + 1 for i in mine))


class TextExamples:
    """Pieces of one long text, `context` tokens each; each token is asked from those before it."""

    def __init__(self, ids: list[int], context: int) -> None:
        if len(ids) < 2:
            raise ValueError(
                f"the text holds {len(ids)} tokens, and there is nothing to learn in fewer than 2; give more"
            )
        self.ids = torch.tensor(ids)
        self.context = min(context, len(ids) - 1)
        self.lengths = [self.context] * (1 + (len(ids) - 2) // self.context)

    def pieces(self, places: Sequence[int], shift: int) -> Tensor:
        """Rows of context + 1 tokens; the shift moves all borders, so that they fall elsewhere in every epoch."""
        last = len(self.ids) - self.context - 1
        starts = (torch.tensor(list(places)) * self.context + shift).clamp(max=last)
        return self.ids[starts[:, None] + torch.arange(self.context + 1)]

    def batch(self, places: Sequence[int], part: slice, key: Sequence[int]) -> Batch:
        """The examples `places[part]`, with borders that depend on the key."""
        rows = self.pieces(places[part], _shift(key, self.context))
        return Batch((rows[:, :-1], rows[:, 1:]), rows[:, 1:].numel())


class MaskedExamples(TextExamples):
    """Pieces of a text in which tokens are hidden: 15 in 100 are asked; of those, 8 in 10 are shown as <mask>, one as
    a token drawn at random and one as it is (Devlin et al., 2018)."""

    def __init__(self, ids: list[int], context: int, vocabulary: int) -> None:
        super().__init__(ids, context)
        self.vocabulary = vocabulary

    def batch(self, places: Sequence[int], part: slice, key: Sequence[int]) -> Batch:
        """The examples `places[part]`, hidden as the key says."""
        rows = self.pieces(places, _shift(key, self.context))[:, :-1]
        rng = np.random.default_rng([7, *key])
        which, how = (torch.from_numpy(rng.random(rows.shape))[part] for _ in range(2))
        other = torch.from_numpy(rng.integers(len(SPECIAL), self.vocabulary, rows.shape))[part]
        rows = rows[part]
        hidden = which < 0.15
        hidden[:, 0] |= ~hidden.any(1)  # a row that asks nothing would teach nothing
        shown = torch.where(hidden & (how < 0.8), torch.full_like(rows, MASK), rows)
        shown = torch.where(hidden & (how >= 0.9), other, shown)
        return Batch((shown, rows.masked_fill(~hidden, NOT_ASKED)), int(hidden.sum()))


def _shift(key: Sequence[int], context: int) -> int:
    """A number below context for each epoch; 0 where no key is given (evaluation)."""
    return int(np.random.default_rng([3, key[0], key[1]]).integers(context)) if key else 0
