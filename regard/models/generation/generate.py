"""Autoregressive generation: one token after another, each chosen from the scores of the model."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.models.generation.beam_search import beam_search
from regard.models.generation.prompt import Prompt, check_model, read_prompt
from regard.models.generation.sampling import Sampling
from regard.models.generation.token_scorer import generation_mode, new_scorer

Tokens = Tensor | Sequence[Tensor] | Sequence[int] | Sequence[Sequence[int]]


def generate(
    model: nn.Module, prompt: Tokens, *, source: Tokens | None = None, lengths: Tensor | None = None,
    source_lengths: Tensor | None = None, new_tokens: int, temperature: float = 0.0, top_k: int | None = None,
    top_p: float | None = None, beams: int = 1, length_penalty: float = 1.0, stop: int | Collection[int] | None = None,
    cache: bool = True, generator: torch.Generator | None = None,
) -> list[Tensor]:  # fmt: skip
    """Return the tokens that a model generates after each prompt: one tensor per row, without prompt and stop token.

    model           Decoder, Seq2Seq or Recurrent; it runs in eval mode and is left in its previous mode
    prompt          token ids (B, L), or one row, or rows of different lengths. For a model with a source: the beginning
                    of the target, usually its start token alone
    source          for Seq2Seq and Recurrent: the text to translate, in the same forms as the prompt
    lengths         (B,) number of real tokens in each row of a prompt (B, L); source_lengths: of a source (B, S)
    new_tokens      largest number of tokens to generate
    temperature     0 takes the likeliest token; above 0, tokens are sampled from softmax(scores / temperature)
    top_k, top_p    sample only among the k likeliest tokens, or the likeliest that together reach probability p
    beams           number of hypotheses of beam search; with more than 1, the best of them is returned
    length_penalty  for beam search: log-probabilities are divided by (number of tokens)^penalty
    stop            token id, or several, at which a row ends
    cache           whether to keep keys and values; if False, every step computes all tokens again
    generator       random generator for sampling

    >>> from regard.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(10, d_model=16, heads=2, layers=1))
    >>> [row.shape for row in generate(model, [[1, 2, 3], [4]], new_tokens=5)]
    [torch.Size([5]), torch.Size([5])]
    """
    task = _check_task(model, prompt, source, lengths, source_lengths, new_tokens, stop)
    sampling = Sampling(temperature, top_k, top_p)
    with generation_mode(model):
        if beams != 1:
            if temperature:
                raise ValueError(
                    f"beam search needs temperature=0 and sampling needs beams=1, got temperature={temperature} and "
                    f"beams={beams}"
                )
            return beam_search(model, *task, beams=beams, length_penalty=length_penalty, cache=cache)
        rows: list[list[int]] = [[] for _ in range(task.prompt.batch)]
        for step in _steps(model, task, sampling, cache, generator):
            for row, token in zip(rows, step, strict=True):
                if token is not None:
                    row.append(token)
    return [torch.tensor(row, dtype=torch.int64) for row in rows]


def stream(
    model: nn.Module, prompt: Tokens, *, source: Tokens | None = None, new_tokens: int, temperature: float = 0.0,
    top_k: int | None = None, top_p: float | None = None, stop: int | Collection[int] | None = None, cache: bool = True,
    generator: torch.Generator | None = None,
) -> Iterator[int]:  # fmt: skip
    """Yield the tokens that a model generates after one prompt, as soon as each is chosen.

    model                                                           Decoder, Seq2Seq or Recurrent
    prompt, source                                                  token ids of one row; a source for Seq2Seq and
                                                                    Recurrent
    new_tokens, temperature, top_k, top_p, stop, cache, generator   as for `generate`

    >>> from regard.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(10, d_model=16, heads=2, layers=1))
    >>> list(stream(model, [1, 2, 3], new_tokens=5)) == generate(model, [1, 2, 3], new_tokens=5)[0].tolist()
    True
    """
    task = _check_task(model, prompt, source, None, None, new_tokens, stop)
    if task.prompt.batch != 1:
        raise ValueError(f"stream takes one prompt, got {task.prompt.batch}; use generate for several")
    steps = _steps(model, task, Sampling(temperature, top_k, top_p), cache, generator)

    def tokens() -> Iterator[int]:
        while True:
            with generation_mode(model):  # only during a step: between two tokens the caller's modes apply
                step = next(steps, None)
            if step is None or step[0] is None:
                return
            yield step[0]

    return tokens()


class _Task(NamedTuple):
    """The checked arguments of `generate`."""

    prompt: Prompt
    source: Prompt | None
    new_tokens: int
    stop: frozenset[int]


def _check_task(
    model: nn.Module, prompt: Tokens, source: Tokens | None, lengths: Tensor | None, source_lengths: Tensor | None,
    new_tokens: int, stop: int | Collection[int] | None,
) -> _Task:  # fmt: skip
    check_model(model, source is not None)
    device = next(model.parameters()).device
    targets = read_prompt("prompt", prompt, lengths, device)
    sources = None if source is None else read_prompt("source", source, source_lengths, device)
    if sources is not None and sources.batch != targets.batch:
        raise ValueError(f"prompt and source need the same number of rows, got {targets.batch} and {sources.batch}")
    if isinstance(new_tokens, bool) or not isinstance(new_tokens, int) or new_tokens < 0:
        raise ValueError(f"new_tokens must be a whole number of at least 0, got {new_tokens!r}")
    context: int = model.config.context  # type: ignore[union-attr, assignment]
    longest = targets.tokens.shape[1]
    if longest + new_tokens > context:
        raise ValueError(
            f"a prompt of {longest} tokens and {new_tokens} new ones exceed the model's context of {context}; "
            f"shorten the prompt, or generate at most {max(0, context - longest)} new tokens"
        )
    stop_tokens = () if stop is None else (stop,) if isinstance(stop, int) else map(int, stop)
    return _Task(targets, sources, new_tokens, frozenset(stop_tokens))


def _steps(
    model: nn.Module, task: _Task, sampling: Sampling, cache: bool, generator: torch.Generator | None
) -> Iterator[list[int | None]]:
    """Yield the new token of every row at each step; None for a row that has ended."""
    if not task.new_tokens or not task.prompt.batch:
        return
    scorer = new_scorer(model, task.prompt, task.source, task.new_tokens, cache=cache)
    ended = [False] * task.prompt.batch
    tokens: Tensor | None = None
    for _ in range(task.new_tokens):
        tokens = sampling(scorer.scores(tokens), generator)
        step = tokens.tolist()
        ended = [over or token in task.stop for over, token in zip(ended, step, strict=True)]
        if all(ended):
            return
        yield [None if over else token for over, token in zip(ended, step, strict=True)]
