"""Scores of the next token, given the tokens chosen so far, for every model that generates text.

| class | how |
|---|---|
| `CachedScorer` | keeps keys and values; only new tokens go through the model, in compiled loops where that is faster |
| `FullScorer` | no cache: computes the model's forward on all tokens at every step |
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.listeners import call_listeners
from regard.extras import installed
from regard.models.generation.prompt import Prompt
from regard.models.transformer.decoder import Decoder
from regard.models.transformer.embedding import Embedding
from regard.models.transformer.encoder import EncoderStack
from regard.models.transformer.feedforward import FeedForward
from regard.models.transformer.layer import Layer
from regard.models.transformer.seq2seq import Seq2Seq, TargetDecoder
from regard.nn import Learned, MultiHeadAttention, Rotary, Sinusoidal

MIN_COMPILED_TOKENS = 100  # for fewer tokens, loading numba (1 s, 5 s if it must compile) takes longer than it saves
MAX_COMPILED_ROWS = 32  # with more rows, matrix products of a library are faster than the compiled loops
MODULES = {
    Decoder, Seq2Seq, EncoderStack, TargetDecoder, Embedding, Layer, FeedForward, MultiHeadAttention, Rotary,
    Sinusoidal, Learned, nn.ModuleList, nn.Linear, nn.LayerNorm, nn.RMSNorm,
}  # fmt: skip


@contextmanager
def generation_mode(model: nn.Module) -> Iterator[None]:
    """Temporarily set eval mode without gradients; afterwards every module is in its previous mode.

    While attention is recorded, inference mode is not used, because its tensors have no version counter.
    """
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad() if call_listeners else torch.inference_mode():
            yield
    finally:
        for module in training:
            module.training = True


def can_compile(model: nn.Module) -> bool:
    """Return whether the compiled loops give the same results as the modules of this model.

    All weights must be float32 on the CPU, numba must be installed, and no module may be replaced, hooked or recorded.
    """
    return (
        type(model) in (Decoder, Seq2Seq)
        and installed("numba")
        and not call_listeners
        and not torch.is_autocast_enabled("cpu")
        and all(x.dtype == torch.float32 and x.is_cpu for x in model.parameters())
        and all(
            type(module) in MODULES and not module._forward_hooks and not module._forward_pre_hooks
            for module in model.modules()
        )
    )


class _Scorer:
    """Base of both scorers: holds the model and the encoded source."""

    def __init__(self, model: Any, source: Prompt | None) -> None:
        self.model, self.source_lengths = model, None if source is None else source.lengths
        self.memory = None if source is None else model.encode(source.tokens, source.lengths)

    def reorder(self, index: Tensor) -> None:
        """Replace row i by row index[i]; an index longer than the batch makes it larger."""
        if self.memory is not None:
            self.memory = self.memory[index] if isinstance(self.memory, Tensor) else self.memory.reorder(index)
        self.source_lengths = None if self.source_lengths is None else self.source_lengths[index]


class CachedScorer(_Scorer):
    """Scores with a cache: the prompt goes through the modules, later tokens through `CompiledDecoder` or the modules.

    rows        number of rows that will be decoded, which is larger than that of the prompt for beam search
    """

    def __init__(self, model: Any, prompt: Prompt, source: Prompt | None, new_tokens: int, rows: int) -> None:
        super().__init__(model, source)
        self.prompt, before = prompt.align_right()
        self.cache = model.new_cache(prompt.batch, prompt.tokens.shape[1] + new_tokens, before)
        enough = rows * new_tokens >= MIN_COMPILED_TOKENS and rows <= MAX_COMPILED_ROWS
        self.compile = enough and can_compile(model)
        self.decoder: Any = None  # the CompiledDecoder, created at the first token after the prompt

    def scores(self, tokens: Tensor | None) -> Tensor:
        """Return scores (B, V) of the token after `tokens` (B,), or after the prompt at the first call."""
        if tokens is None:
            return self._run_modules(self.prompt)
        if self.compile and self.decoder is None:
            from regard.models.generation.one_token_model_step import CompiledDecoder  # loads numba

            self.decoder = CompiledDecoder(self.model, self.cache, self.source_lengths)
        return self._run_modules(tokens[:, None]) if self.decoder is None else self.decoder(tokens)

    def _run_modules(self, tokens: Tensor) -> Tensor:
        model = self.model
        if isinstance(model, Decoder):
            states = model.states(tokens, None, self.cache)
        elif isinstance(model, Seq2Seq):
            states = model.decoder(tokens, self.memory, self.source_lengths, None, self.cache)
        else:
            states, _ = model.states(tokens, self.memory, None, self.cache)
        return F.linear(states[:, -1], model.table)

    def reorder(self, index: Tensor) -> None:
        super().reorder(index)
        self.cache.reorder(index)
        if self.decoder is not None:
            self.decoder.reorder(self.source_lengths)


class FullScorer(_Scorer):
    """Scores without a cache: every step is the model's forward on all tokens so far."""

    def __init__(self, model: Any, prompt: Prompt, source: Prompt | None) -> None:
        super().__init__(model, source)
        self.tokens = prompt.tokens
        full = torch.full((prompt.batch,), prompt.tokens.shape[1], device=prompt.tokens.device)
        self.lengths = full if prompt.lengths is None else prompt.lengths

    def scores(self, tokens: Tensor | None) -> Tensor:
        """Return scores (B, V) of the token after `tokens` (B,), or after the prompt at the first call."""
        rows = torch.arange(len(self.tokens), device=self.tokens.device)
        if tokens is not None:
            self.tokens = F.pad(self.tokens, (0, 1))
            self.tokens[rows, self.lengths] = tokens
            self.lengths = self.lengths + 1
        if isinstance(self.model, Decoder):
            scores: Tensor = self.model(self.tokens, self.lengths)
        else:
            scores = self.model.decode(self.tokens, self.memory, self.source_lengths, self.lengths)
        return scores[rows, self.lengths - 1]

    def reorder(self, index: Tensor) -> None:
        super().reorder(index)
        self.tokens, self.lengths = self.tokens[index], self.lengths[index]


def new_scorer(
    model: nn.Module, prompt: Prompt, source: Prompt | None, new_tokens: int, *, cache: bool, beams: int = 1
) -> CachedScorer | FullScorer:
    """Return a scorer for the tokens after a prompt."""
    if not cache:
        return FullScorer(model, prompt, source)
    return CachedScorer(model, prompt, source, new_tokens, prompt.batch * beams)
