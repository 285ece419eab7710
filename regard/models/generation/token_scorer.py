"""The state of writing: from the tokens chosen last to the scores of the next, for any model that writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.listeners import call_listeners
from regard.models.generation.fast_path_conditions import simple, unwatched
from regard.models.generation.fast_step import Step
from regard.models.generation.prompt import Prompt
from regard.models.transformer.decoder import Decoder
from regard.models.transformer.seq2seq import Seq2Seq

LONG = 100  # new tokens from which compiled loops are worth loading (a second, once; compiled anew, five)


@contextmanager
def written(model: nn.Module) -> Iterator[None]:
    """Eval mode and no gradients, and afterwards every module in the mode it was in.

    For those who listen to attention it is not inference mode: its tensors do not say whether they were changed since.
    """
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad() if call_listeners else torch.inference_mode():
            yield
    finally:
        for module in training:
            module.training = True


class Remembered:
    """Rows being written with a cache: only the new tokens go through the model.

    The prompt goes through its modules, the tokens after it through `Step`, or one row of them through `Row`, both of
    which are the same arithmetic with less around it.
    """

    def __init__(self, model: Any, prompt: Prompt, source: Prompt | None, new_tokens: int, one_row: bool) -> None:
        self.model, self.source_lengths = model, None if source is None else source.lengths
        self.memory = None if source is None else model.encode(source.tokens, source.lengths)
        self.prompt, before = prompt.at_the_end()
        self.past = model.new_cache(prompt.batch, prompt.tokens.shape[1] + new_tokens, before)
        self.by_steps = unwatched(model)
        self.by_rows = self.by_steps and one_row and new_tokens >= LONG and simple(model)
        self.step: Any = None

    def scores(self, chosen: Tensor | None) -> Tensor:
        """Scores (B, V) of the token after `chosen` (B,), or after the prompt at first."""
        if chosen is None:
            return self._through_modules(self.prompt)
        if self.step is None and self.by_rows:
            from regard.models.generation.compiled_row import Row  # loads numba, which the rest does without

            self.step = Row(self.model, self.past)
        elif self.step is None and self.by_steps:
            self.step = Step(self.model, self.past, self.source_lengths)
        return self._through_modules(chosen[:, None]) if self.step is None else self.step(chosen)

    def _through_modules(self, tokens: Tensor) -> Tensor:
        """The last place alone is scored."""
        model = self.model
        if isinstance(model, Decoder):
            states = model.states(tokens, None, self.past)
        elif isinstance(model, Seq2Seq):
            states = model.decoder(tokens, self.memory, self.source_lengths, None, self.past)
        else:
            states, _ = model.states(tokens, self.memory, None, self.past)
        return F.linear(states[:, -1], model.table)

    def reorder(self, index: Tensor) -> None:
        """Make row i what row index[i] was; an index longer than the batch makes it larger."""
        self.past.reorder(index)
        self.memory = None if self.memory is None else _rows_of(self.memory, index)
        self.source_lengths = None if self.source_lengths is None else self.source_lengths[index]
        if isinstance(self.step, Step):
            self.step.reorder(index)


class Recomputed:
    """Rows being written without a cache: every step is the model's plain forward on all tokens so far."""

    def __init__(self, model: Any, prompt: Prompt, source: Prompt | None) -> None:
        self.model, self.source_lengths = model, None if source is None else source.lengths
        self.memory = None if source is None else model.encode(source.tokens, source.lengths)
        self.tokens = prompt.tokens
        full = torch.full((prompt.batch,), prompt.tokens.shape[1], device=prompt.tokens.device)
        self.lengths = full if prompt.lengths is None else prompt.lengths

    def scores(self, chosen: Tensor | None) -> Tensor:
        """Scores (B, V) of the token after `chosen` (B,), or after the prompt at first."""
        rows = torch.arange(len(self.tokens), device=self.tokens.device)
        if chosen is not None:
            self.tokens = F.pad(self.tokens, (0, 1))
            self.tokens[rows, self.lengths] = chosen
            self.lengths = self.lengths + 1
        if isinstance(self.model, Decoder):
            scores = self.model(self.tokens, self.lengths)
        else:
            scores = self.model.decode(self.tokens, self.memory, self.source_lengths, self.lengths)
        found: Tensor = scores[rows, self.lengths - 1]
        return found

    def reorder(self, index: Tensor) -> None:
        """Make row i what row index[i] was; an index longer than the batch makes it larger."""
        self.tokens, self.lengths = self.tokens[index], self.lengths[index]
        self.memory = None if self.memory is None else _rows_of(self.memory, index)
        self.source_lengths = None if self.source_lengths is None else self.source_lengths[index]


def begin(
    model: nn.Module, prompt: Prompt, source: Prompt | None, new_tokens: int, *, cache: bool, beams: int = 1
) -> Remembered | Recomputed:
    """What writes after a prompt."""
    if not cache:
        return Recomputed(model, prompt, source)
    return Remembered(model, prompt, source, new_tokens, prompt.batch == beams == 1)


def _rows_of(memory: Any, index: Tensor) -> Any:
    return memory[index] if isinstance(memory, Tensor) else memory.reorder(index)
