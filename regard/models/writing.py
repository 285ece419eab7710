"""The state of writing: from the tokens chosen last to the scores of the next, for any model that writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.models.decoder import Decoder
from regard.models.prompt import Prompt


@contextmanager
def written(model: nn.Module) -> Iterator[None]:
    """Eval mode and no gradients, and afterwards the mode as it was."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


class Writing:
    """Rows being written.

    With a cache, only the new tokens go through the model; without, every step is the model's plain forward on all
    tokens so far, right-padded: the same thing said in the simplest way.
    """

    def __init__(self, model: Any, prompt: Prompt, source: Prompt | None, new_tokens: int, cache: bool) -> None:
        self.model, self.source_lengths = model, None if source is None else source.lengths
        self.memory = None if source is None else model.encode(source.tokens, source.lengths)
        self.fresh = prompt.at_the_end()[0] if cache else prompt.tokens  # what the model has not seen yet
        self.past = None
        if cache:
            before = prompt.at_the_end()[1]
            self.past = model.past(prompt.batch, prompt.tokens.shape[1] + new_tokens, before)
        else:
            full = torch.full((prompt.batch,), prompt.tokens.shape[1], device=prompt.tokens.device)
            self.lengths = full if prompt.lengths is None else prompt.lengths

    def scores(self, chosen: Tensor | None) -> Tensor:
        """Scores (B, V) of the token after `chosen` (B,), or after the prompt at first."""
        if self.past is not None:
            tokens = self.fresh if chosen is None else chosen[:, None]
            return self._decoded(tokens, None)[:, -1]
        if chosen is not None:
            self.fresh = torch.cat((self.fresh, torch.zeros_like(chosen)[:, None]), 1)
            self.fresh[torch.arange(len(chosen), device=chosen.device), self.lengths] = chosen
            self.lengths = self.lengths + 1
        scores = self._decoded(self.fresh, self.lengths)
        return scores[torch.arange(len(scores), device=scores.device), self.lengths - 1]

    def _decoded(self, tokens: Tensor, lengths: Tensor | None) -> Tensor:
        if isinstance(self.model, Decoder):
            return self.model(tokens, lengths, self.past)
        found: Tensor = self.model.decode(tokens, self.memory, self.source_lengths, lengths, self.past)
        return found

    def reorder(self, index: Tensor) -> None:
        """Make row i what row index[i] was, for beams; an index longer than the batch makes it larger."""
        if self.past is not None:
            self.past.reorder(index)
        else:
            self.fresh, self.lengths = self.fresh[index], self.lengths[index]
        if isinstance(self.memory, Tensor):
            self.memory = self.memory[index]
        elif self.memory is not None:
            self.memory = self.memory.reorder(index)
        if self.source_lengths is not None:
            self.source_lengths = self.source_lengths[index]
