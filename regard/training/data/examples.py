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
    """Pieces of a text in which whole words are predicted: 15 % of them in an evaluation, 30 % in training.

    As in BERT (Devlin et al., 2018), 80 % of the predicted words are replaced by <mask> for each of their tokens, 10 %
    by random tokens, and 10 % are left as they are. `word_starts` (V,) says of each token whether it begins a word.
    """

    def __init__(self, ids: list[int], context: int, word_starts: Sequence[bool]) -> None:
        super().__init__(ids, context)
        self.word_starts = torch.tensor(word_starts)

    def batch(self, indices: Sequence[int], part: slice, key: Sequence[int]) -> Batch:
        """Return the examples `indices[part]`, with masked tokens that depend on `key`."""
        rows = self.pieces(indices, _shift(key, self.context))[:, :-1]
        rng = np.random.default_rng([7, *key])
        words = self.word_starts[rows].cumsum(1)  # the number of each token's word; 0 if it began before the piece
        draws = (torch.from_numpy(rng.random((len(rows), rows.shape[1] + 1))) for _ in range(2))
        predicted_draw, replacement_draw = (draw.gather(1, words)[part] for draw in draws)
        random_tokens = torch.from_numpy(rng.integers(len(SPECIAL), len(self.word_starts), rows.shape))[part]
        rows = rows[part]
        predicted = predicted_draw < (0.3 if key else 0.15)  # more predictions teach more in the same time
        predicted[:, 0] |= ~predicted.any(1)  # every row has at least one predicted token
        inputs = torch.where(predicted & (replacement_draw < 0.8), torch.full_like(rows, MASK), rows)
        inputs = torch.where(predicted & (replacement_draw >= 0.9), random_tokens, inputs)
        return Batch((inputs, rows.masked_fill(~predicted, IGNORED)), int(predicted.sum()))


def unigram_loss(training: TextExamples, validation: TextExamples, batch: int) -> float:
    """Return the mean loss of predicting each token of `validation` from its frequency in `training` alone.

    The predicted tokens are those of `regard.training.supervised.mean_loss` with the same size of batches.
    """
    counts = torch.bincount(training.ids) + 0.0
    counts = torch.nn.functional.pad(counts, (0, max(0, int(validation.ids.max()) + 1 - len(counts)))) + 1
    total, number = 0.0, 0
    for start in range(0, len(validation.lengths), batch):
        indices = range(len(validation.lengths))[start : start + batch]
        targets = validation.batch(indices, slice(None), ()).tensors[1]
        losses = (counts.sum() / counts).log()[targets[targets != IGNORED]]  # type: ignore[index]
        total, number = total + float(losses.sum()), number + len(losses)
    return total / number


def _shift(key: Sequence[int], context: int) -> int:
    """Return a random shift below `context` that depends on the epoch in `key`; 0 if `key` is empty (evaluation)."""
    return int(np.random.default_rng([3, key[0], key[1]]).integers(context)) if key else 0
