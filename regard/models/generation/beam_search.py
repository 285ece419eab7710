"""Beam search: keep the `beams` likeliest unfinished hypotheses of each row and extend all of them at every step.

    score = log P(tokens) / (number of tokens)^penalty          the stop token is counted

A hypothesis that produces a stop token is finished. A row ends when no unfinished hypothesis can score better than the
best finished one: log P only falls, so log P / (longest length)^penalty bounds the score that it can still reach.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.models.generation.prompt import Prompt
from regard.models.generation.token_scorer import new_scorer


class Hypothesis(NamedTuple):
    """A finished text and its score."""

    score: float
    tokens: list[int]


def beam_search(
    model: Any, prompt: Prompt, source: Prompt | None, new_tokens: int, stop: frozenset[int], *, beams: int,
    length_penalty: float, cache: bool,
) -> list[Tensor]:  # fmt: skip
    """Return the best of `beams` hypotheses of every row."""
    if isinstance(beams, bool) or not isinstance(beams, int) or beams < 1:
        raise ValueError(f"beams must be a whole number of at least 1, got {beams!r}")
    if length_penalty < 0:
        raise ValueError(f"length_penalty must not be negative, got {length_penalty}")
    rows = prompt.batch
    if not new_tokens or not rows:
        return [torch.empty(0, dtype=torch.int64) for _ in range(rows)]
    scorer = new_scorer(model, prompt, source, new_tokens, cache=cache, beams=beams)
    best: list[Hypothesis | None] = [None] * rows
    texts = torch.empty(rows, 1, 0, dtype=torch.int64)  # unfinished hypotheses, (rows, beams, n)
    sums = torch.zeros(rows, 1, dtype=torch.float64)  # log-probabilities of these hypotheses
    last: Tensor | None = None
    for n in range(1, new_tokens + 1):
        scores = scorer.scores(last).to("cpu", torch.float64).log_softmax(-1)  # (rows · beams, V)
        vocabulary, width = scores.shape[-1], sums.shape[1]
        total = (sums[..., None] + scores.view(*sums.shape, vocabulary)).flatten(1)  # (rows, beams · V)
        stop_tokens = torch.tensor(sorted(token for token in stop if token < vocabulary), dtype=torch.int64)
        for row in range(rows):
            finished = total.view(rows, width, vocabulary)[row][:, stop_tokens]  # (beams, stop tokens)
            if finished.numel():
                which = int(finished.argmax())
                score = float(finished.flatten()[which]) / n**length_penalty
                best[row] = _better(best[row], score, texts[row, which // len(stop_tokens)].tolist())
        total.view(rows, width, vocabulary)[..., stop_tokens] = float("-inf")
        sums, index = total.topk(min(beams, total.shape[1]), -1)  # (rows, beams)
        beam, token = index // vocabulary, index % vocabulary
        texts = torch.cat((texts.gather(1, beam[..., None].expand(-1, -1, n - 1)), token[..., None]), -1)
        if n == new_tokens or all(_is_done(one, float(top), new_tokens, length_penalty)
                                  for one, top in zip(best, sums[:, 0], strict=True)):  # fmt: skip
            break
        scorer.reorder((beam + torch.arange(rows)[:, None] * width).flatten().to(prompt.tokens.device))
        last = token.flatten().to(prompt.tokens.device)
    for row in range(rows):
        if torch.isfinite(sums[row, 0]) and texts.shape[-1] == new_tokens:
            best[row] = _better(best[row], float(sums[row, 0]) / new_tokens**length_penalty, texts[row, 0].tolist())
    return [torch.tensor(one.tokens if one else [], dtype=torch.int64) for one in best]


def _better(best: Hypothesis | None, score: float, tokens: list[int]) -> Hypothesis:
    return Hypothesis(score, tokens) if best is None or score > best.score else best


def _is_done(best: Hypothesis | None, top: float, longest: int, penalty: float) -> bool:
    """Return whether no unfinished hypothesis can beat `best`; `top` is the largest of their log-probabilities."""
    return top == float("-inf") or (best is not None and best.score >= top / longest**penalty)
