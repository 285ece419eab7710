"""Training examples as tensors: translation pairs, running text, and text with masked tokens."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from regard.training.tokenizer import BEGIN, END, MASK, PAD, SPECIAL

IGNORED = -100  # target of tokens that do not count in the loss


class Batch(NamedTuple):
    """Tensors of a batch, in the order of the model's `loss`, and the number of tokens it predicts."""

    tensors: tuple[Tensor | None, ...]
    targets: int

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on another device."""
        return Batch(tuple(None if t is None else t.to(device) for t in self.tensors), self.targets)


class Examples(Protocol):
    """Examples that can be put into batches."""

    lengths: list[int]

    def batch(self, indices: Sequence[int], part: slice, key: Sequence[int]) -> Batch:
        """Return the examples `indices[part]` as tensors; random choices depend on `key`, not on `part`."""


def pad_rows(rows: list[list[int]], filler: int = PAD) -> tuple[Tensor, Tensor | None]:
    """Return rows as one padded tensor, and their lengths (None if all are equal, so that no mask is needed)."""
    longest = max(map(len, rows))
    tensor = torch.tensor([row + [filler] * (longest - len(row)) for row in rows])
    if all(len(row) == longest for row in rows):
        return tensor, None
    return tensor, torch.tensor([len(row) for row in rows])


class PairExamples:
    """Pairs of source and target; the decoder reads <begin> and the target, and predicts the target and <end>."""

    def __init__(self, sources: list[list[int]], targets: list[list[int]]) -> None:
        self.sources = sources
        self.targets = targets
        # Sorts by the length of the source, then by that of the target.
        self.lengths = [1000 * len(source) + len(target) for source, target in zip(sources, targets, strict=True)]

    def batch(self, indices: Sequence[int], part: slice, key: Sequence[int]) -> Batch:
        """Return the examples whose numbers are `indices[part]`; equal arguments give equal batches."""
        rows = indices[part]
        source, source_lengths = pad_rows([self.sources[i] for i in rows])
        inputs, lengths = pad_rows([[BEGIN, *self.targets[i]] for i in rows])
        targets, _ = pad_rows([[*self.targets[i], END] for i in rows], IGNORED)
        return Batch((source, inputs, targets, source_lengths, lengths), sum(len(self.targets[i]) + 1 for i in rows))


class TextExamples:
    """Pieces of a long text with `context` tokens each; every token is predicted from those before it."""

    def __init__(self, ids: list[int], context: int) -> None:
        if len(ids) < 2:
            raise ValueError(f"training needs a text of at least 2 tokens, got {len(ids)}; give more text")
        self.ids = torch.tensor(ids)
        self.context = min(context, len(ids) - 1)
        self.lengths = [self.context] * (1 + (len(ids) - 2) // self.context)

    def pieces(self, indices: Sequence[int], shift: int) -> Tensor:
        """Return rows of context + 1 tokens; `shift`, which differs between epochs, moves where the text is cut."""
        last = len(self.ids) - self.context - 1
        starts = (torch.tensor(list(indices)) * self.context + shift).clamp(max=last)
        return self.ids[starts[:, None] + torch.arange(self.context + 1)]

    def batch(self, indices: Sequence[int], part: slice, key: Sequence[int]) -> Batch:
        """Return the examples `indices[part]`, cut at places that depend on `key`."""
        rows = self.pieces(indices[part], _shift(key, self.context))
        return Batch((rows[:, :-1], rows[:, 1:]), rows[:, 1:].numel())


class MaskedExamples(TextExamples):
    """Pieces of a text in which 15 % of the tokens are predicted (Devlin et al., 2018).

    Of the predicted tokens, 80 % are replaced by <mask>, 10 % by a random token, and 10 % are left as they are.
    """

    def __init__(self, ids: list[int], context: int, vocabulary: int) -> None:
        super().__init__(ids, context)
        self.vocabulary = vocabulary

    def batch(self, indices: Sequence[int], part: slice, key: Sequence[int]) -> Batch:
        """Return the examples `indices[part]`, with masked tokens that depend on `key`."""
        rows = self.pieces(indices, _shift(key, self.context))[:, :-1]
        rng = np.random.default_rng([7, *key])
        predicted_draw, replacement_draw = (torch.from_numpy(rng.random(rows.shape))[part] for _ in range(2))
        random_tokens = torch.from_numpy(rng.integers(len(SPECIAL), self.vocabulary, rows.shape))[part]
        rows = rows[part]
        predicted = predicted_draw < 0.15
        predicted[:, 0] |= ~predicted.any(1)  # every row has at least one predicted token
        inputs = torch.where(predicted & (replacement_draw < 0.8), torch.full_like(rows, MASK), rows)
        inputs = torch.where(predicted & (replacement_draw >= 0.9), random_tokens, inputs)
        return Batch((inputs, rows.masked_fill(~predicted, IGNORED)), int(predicted.sum()))


def _shift(key: Sequence[int], context: int) -> int:
    """Return a random shift below `context` that depends on the epoch in `key`; 0 if `key` is empty (evaluation)."""
    return int(np.random.default_rng([3, key[0], key[1]]).integers(context)) if key else 0
