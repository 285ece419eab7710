"""Writing: one token after another, each chosen from the scores of the model."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.models.generation.beam_search import beam_search
from regard.models.generation.prompt import Prompt, check_model, read_prompt, read_stop
from regard.models.generation.sampling import Choice
from regard.models.generation.token_scorer import begin, written

Tokens = Tensor | Sequence[Tensor] | Sequence[int] | Sequence[Sequence[int]]


def generate(
    model: nn.Module,
    prompt: Tokens,
    *,
    source: Tokens | None = None,
    lengths: Tensor | None = None,
    source_lengths: Tensor | None = None,
    new_tokens: int,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    beams: int = 1,
    length_penalty: float = 1.0,
    stop: int | Collection[int] | None = None,
    cache: bool = True,
    generator: torch.Generator | None = None,
) -> list[Tensor]:
    """The tokens that a model writes after each prompt: one tensor a row, without prompt and stop token.

    model           Decoder, Seq2Seq or Recurrent; it is run in eval mode and left as it was
    prompt          token ids (B, L), or a row, or rows of different lengths. For a model with a source: the beginning
                    of the target, usually its start token alone
    source          for Seq2Seq and Recurrent: what is translated, as prompt
    lengths         (B,) how many tokens of each row of a prompt (B, L) are real; source_lengths likewise
    new_tokens      how many to write at most
    temperature     0 takes the likeliest token; above, tokens are drawn
    top_k, top_p    draw only among the k likeliest, or the likeliest that reach probability p
    beams           how many hypotheses to keep; with more than 1, the best of them is returned
    length_penalty  for beams: log-probabilities are divided by (number of tokens)^penalty
    stop            a token, or several, at which a row ends
    cache           whether to keep keys and values; without, all is computed again at every step
    generator       for draws that can be repeated

    >>> from regard.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(10, d_model=16, heads=2, layers=1))
    >>> [row.shape for row in generate(model, [[1, 2, 3], [4]], new_tokens=5)]
    [torch.Size([5]), torch.Size([5])]
    """
    asked = _asked(model, prompt, source, lengths, source_lengths, new_tokens, stop)
    choice = Choice(temperature, top_k, top_p)
    with written(model):
        if beams != 1:
            if temperature:
                raise ValueError("beams search for the likeliest text; drawing needs beams=1, beams need temperature=0")
            return beam_search(model, *asked, beams=beams, length_penalty=length_penalty, cache=cache)
        rows: list[list[int]] = [[] for _ in range(asked[0].batch)]
        for step in _steps(model, *asked, choice=choice, cache=cache, generator=generator):
            for row, token in zip(rows, step, strict=True):
                if token is not None:
                    row.append(token)
    return [torch.tensor(row, dtype=torch.int64) for row in rows]


def stream(
    model: nn.Module,
    prompt: Tokens,
    *,
    source: Tokens | None = None,
    new_tokens: int,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | Collection[int] | None = None,
    cache: bool = True,
    generator: torch.Generator | None = None,
) -> Iterator[int]:
    """The tokens that a model writes after one prompt, each as soon as it is known; as `generate` otherwise.

    >>> from regard.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(10, d_model=16, heads=2, layers=1))
    >>> list(stream(model, [1, 2, 3], new_tokens=5)) == generate(model, [1, 2, 3], new_tokens=5)[0].tolist()
    True
    """
    asked = _asked(model, prompt, source, None, None, new_tokens, stop)
    if asked[0].batch != 1:
        raise ValueError(f"stream writes one text, got {asked[0].batch} prompts; generate takes several")
    choice = Choice(temperature, top_k, top_p)
    return _streamed(model, asked, choice, cache, generator)


def _streamed(
    model: nn.Module, asked: Any, choice: Choice, cache: bool, generator: torch.Generator | None
) -> Iterator[int]:
    steps = _steps(model, *asked, choice=choice, cache=cache, generator=generator)
    while True:
        with written(model):  # only while a token is computed: between two, the caller's modes hold
            step = next(steps, None)
        if step is None or step[0] is None:
            return
        yield step[0]


def _asked(
    model: nn.Module,
    prompt: Tokens,
    source: Tokens | None,
    lengths: Tensor | None,
    source_lengths: Tensor | None,
    new_tokens: int,
    stop: int | Collection[int] | None,
) -> tuple[Prompt, Prompt | None, int, frozenset[int]]:
    """What was asked for, checked."""
    check_model(model, source is not None)
    device = next(model.parameters()).device
    begin = read_prompt("prompt", prompt, lengths, device)
    read = None if source is None else read_prompt("source", source, source_lengths, device)
    if read is not None and read.batch != begin.batch:
        raise ValueError(f"prompt and source must have as many rows, got {begin.batch} and {read.batch}")
    if isinstance(new_tokens, bool) or not isinstance(new_tokens, int) or new_tokens < 0:
        raise ValueError(f"new_tokens must be a whole number of at least 0, got {new_tokens!r}")
    context: int = model.config.context  # type: ignore[union-attr, assignment]
    longest = begin.tokens.shape[1]
    if longest + new_tokens > context:
        raise ValueError(
            f"a prompt of {longest} tokens and {new_tokens} new ones are more than the model's context of {context}; "
            f"shorten the prompt, or ask for at most {max(0, context - longest)} new tokens"
        )
    return begin, read, new_tokens, read_stop(stop)


def _steps(
    model: nn.Module,
    prompt: Prompt,
    source: Prompt | None,
    new_tokens: int,
    stop: frozenset[int],
    *,
    choice: Choice,
    cache: bool,
    generator: torch.Generator | None,
) -> Iterator[list[int | None]]:
    """For each step, the new token of every row; None for a row that has ended."""
    if not new_tokens or not prompt.batch:
        return
    writing = begin(model, prompt, source, new_tokens, cache=cache)
    ended = [False] * prompt.batch
    tokens: Tensor | None = None
    for _ in range(new_tokens):
        tokens = choice(writing.scores(tokens), generator)
        step = tokens.tolist()
        if stop:
            ended = [over or token in stop for over, token in zip(ended, step, strict=True)]
            if all(ended):
                return
            yield [None if over else token for over, token in zip(ended, step, strict=True)]
        else:
            yield step
