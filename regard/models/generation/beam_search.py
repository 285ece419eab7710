"""Beam search: several hypotheses a row, the best of them written on.

    score = log P(tokens) / (number of tokens)^penalty          the stop token counts as one

A hypothesis that stops is set aside. A row is done when none of those still open can end better than the best
that has ended: log P only falls, so log P / (longest length)^penalty is the most an open one can reach.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.models.generation.prompt import Prompt
from regard.models.generation.token_scorer import begin


@dataclass(frozen=True)
class Ended:
    """A hypothesis that is complete."""

    score: float
    tokens: list[int]


def beam_search(
    model: Any,
    prompt: Prompt,
    source: Prompt | None,
    new_tokens: int,
    stop: frozenset[int],
    *,
    beams: int,
    length_penalty: float,
    cache: bool,
) -> list[Tensor]:
    """The best of `beams` hypotheses of every row."""
    if isinstance(beams, bool) or not isinstance(beams, int) or beams < 1:
        raise ValueError(f"beams must be a whole number of at least 1, got {beams!r}")
    if length_penalty < 0:
        raise ValueError(f"length_penalty must not be negative, got {length_penalty}")
    rows = prompt.batch
    if not new_tokens or not rows:
        return [torch.empty(0, dtype=torch.int64) for _ in range(rows)]
    writing = begin(model, prompt, source, new_tokens, cache=cache, beams=beams)
    best: list[Ended | None] = [None] * rows
    open_ = torch.empty(rows, 1, 0, dtype=torch.int64)  # tokens of the open hypotheses, (rows, beams, n)
    sums = torch.zeros(rows, 1, dtype=torch.float64)  # their log-probabilities
    chosen: Tensor | None = None
    for n in range(1, new_tokens + 1):
        scores = writing.scores(chosen).to("cpu", torch.float64).log_softmax(-1)  # (rows · beams, V)
        vocabulary = scores.shape[-1]
        total = (sums[..., None] + scores.view(*sums.shape, vocabulary)).flatten(1)  # (rows, beams · V)
        over = torch.tensor(sorted(token for token in stop if token < vocabulary), dtype=torch.int64)
        width = sums.shape[1]
        for row in range(rows):
            endings = total.view(rows, width, vocabulary)[row][:, over]  # (beams, stops)
            if endings.numel():
                at = int(endings.argmax())
                which, score = at // len(over), float(endings.flatten()[at]) / n**length_penalty
                best[row] = _better(best[row], score, open_[row, which].tolist())
        total.view(rows, width, vocabulary)[..., over] = float("-inf")
        sums, index = total.topk(min(beams, total.shape[1]), -1)  # (rows, beams)
        beam, token = index // vocabulary, index % vocabulary
        open_ = torch.cat((open_.gather(1, beam[..., None].expand(-1, -1, n - 1)), token[..., None]), -1)
        if n == new_tokens or all(_done(found, float(top), new_tokens, length_penalty)
                                  for found, top in zip(best, sums[:, 0], strict=True)):  # fmt: skip
            break
        writing.reorder((beam + torch.arange(rows)[:, None] * width).flatten().to(prompt.tokens.device))
        chosen = token.flatten().to(prompt.tokens.device)
    for row in range(rows):
        if torch.isfinite(sums[row, 0]) and open_.shape[-1] == new_tokens:
            best[row] = _better(best[row], float(sums[row, 0]) / new_tokens**length_penalty, open_[row, 0].tolist())
    return [torch.tensor(found.tokens if found else [], dtype=torch.int64) for found in best]


def _better(best: Ended | None, score: float, tokens: list[int]) -> Ended:
    return Ended(score, tokens) if best is None or score > best.score else best


def _done(best: Ended | None, top: float, longest: int, penalty: float) -> bool:
    """Whether no open hypothesis, the likeliest of which has log-probability `top`, can end better."""
    return top == float("-inf") or (best is not None and best.score >= top / longest**penalty)
