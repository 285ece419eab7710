"""Training at the size of an experiment: AdamW, a short warm-up, a long fall, and marks along the way.

The full loop with checkpoints is `regard.training`; here a run takes seconds, and is done again if it was stopped.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Mark(NamedTuple):
    """Where a run stood: updates so far, seconds of training so far, and what was measured."""

    step: int
    seconds: float
    loss: float
    score: float


def fit(
    model: nn.Module,
    loss_of: Callable[[int], Tensor],
    steps: int,
    *,
    score_of: Callable[[], float] | None = None,
    marks: int = 1,
    learning_rate: float = 1e-3,
    seconds: float | None = None,
) -> list[Mark]:
    """Train, and return `marks` marks, evenly spread; the last is the end.

    loss_of         the loss of update number n, on a fresh batch
    score_of        what is measured at each mark, in eval mode; its time is not counted
    seconds         stop after so much training, if `steps` are not done before

    The learning rate rises over the first twentieth and falls to a tenth along a cosine, by the share that is done.

    >>> line = nn.Linear(1, 1)
    >>> x = torch.linspace(-1, 1, 16)[:, None]
    >>> end = fit(line, lambda _: (line(x) - 3 * x).square().mean(), 200, learning_rate=0.1)[-1]
    >>> end.step, end.loss < 1e-3
    (200, True)
    """
    if steps < 1 or not 1 <= marks <= steps:
        raise ValueError(f"a run has at least one step and no more marks than steps, got {steps} steps, {marks} marks")
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01)
    found: list[Mark] = []
    spent, recent, share = 0.0, float("nan"), 0.0
    for step in range(1, steps + 1):
        start = time.perf_counter()
        model.train()
        for group in optimiser.param_groups:
            group["lr"] = learning_rate * _share_of_rate(share)
        loss = loss_of(step)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        now = float(loss.detach())
        recent = now if step == 1 else 0.9 * recent + 0.1 * now
        spent += time.perf_counter() - start
        share = max(step / steps, spent / seconds if seconds else 0.0)
        if share >= 1 or int(share * marks) > len(found):
            found.append(Mark(step, spent, recent, _scored(model, score_of)))
        if share >= 1:
            break
    return found


def _share_of_rate(share: float) -> float:
    if share < 0.05:
        return 0.1 + 0.9 * share / 0.05
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min((share - 0.05) / 0.95, 1.0)))


def _scored(model: nn.Module, score_of: Callable[[], float] | None) -> float:
    if score_of is None:
        return float("nan")
    model.eval()
    with torch.no_grad():
        return float(score_of())


def parameters(model: nn.Module) -> int:
    """How many numbers a model learns.

    >>> parameters(nn.Linear(2, 3))
    9
    """
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def match_parameters(make: Callable[[int], nn.Module], target: int, widths: range) -> nn.Module:
    """The model whose number of parameters is nearest the target, of those that `make` builds at these widths.

    More width must mean more parameters: the widths are halved until two are left.

    >>> match_parameters(lambda width: nn.Linear(width, width, bias=False), 100, range(1, 20)).in_features
    10
    """
    with torch.device("meta"):
        above = bisect_left(widths, target, key=lambda width: parameters(make(width)))
        near = [widths[at] for at in (above - 1, above) if 0 <= at < len(widths)]
        width = min(near, key=lambda width: abs(parameters(make(width)) - target))
    return make(width)
