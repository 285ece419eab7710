"""Training at the size of an experiment: AdamW with warm-up and cosine decay, evaluated along the way.

The full training loop with checkpoints is `regard.training`; these runs take seconds and are simply repeated if
they were interrupted.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Evaluation(NamedTuple):
    """Progress of a run: updates and CPU seconds of training so far, smoothed training loss, and score."""

    step: int
    seconds: float
    loss: float
    score: float


def fit(
    model: nn.Module,
    loss: Callable[[], Tensor],
    steps: int,
    *,
    score: Callable[[], float] | None = None,
    evaluations: int = 1,
    learning_rate: float = 1e-3,
    warm_up: float = 0.05,
) -> list[Evaluation]:
    """Train a model and return evenly spaced evaluations; the last one is at the end.

    loss            returns the loss on a fresh batch
    score           measured in eval mode at each evaluation; its time is not counted

    warm_up         share of the steps during which the learning rate rises; then it falls to a tenth along a cosine

    >>> line = nn.Linear(1, 1)
    >>> x = torch.linspace(-1, 1, 16)[:, None]
    >>> end = fit(line, lambda: (line(x) - 3 * x).square().mean(), 200, learning_rate=0.1)[-1]
    >>> end.step, end.loss < 1e-3
    (200, True)
    """
    if not 1 <= evaluations <= steps:
        raise ValueError(f"evaluations must be between 1 and the number of steps, {steps}, got {evaluations}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01)
    results: list[Evaluation] = []
    seconds, smoothed = 0.0, float("nan")
    for step in range(1, steps + 1):
        start = time.process_time()
        model.train()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _rate_factor((step - 1) / steps, warm_up)
        value = loss()
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        current = float(value.detach())
        smoothed = current if step == 1 else 0.9 * smoothed + 0.1 * current
        seconds += time.process_time() - start
        if step == steps or int(step / steps * evaluations) > len(results):
            results.append(Evaluation(step, seconds, smoothed, _evaluate(model, score)))
    return results


def _rate_factor(progress: float, warm_up: float) -> float:
    if progress < warm_up:
        return 0.1 + 0.9 * progress / warm_up
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min((progress - warm_up) / (1 - warm_up), 1.0)))


def _evaluate(model: nn.Module, score: Callable[[], float] | None) -> float:
    if score is None:
        return float("nan")
    model.eval()
    with torch.no_grad():
        return float(score())


def token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits (..., classes) over all targets (...) other than −100."""
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def share_correct(logits: Tensor, targets: Tensor) -> float:
    """Return the share of targets (...) to which logits (..., classes) give the largest value; −100 is not counted.

    >>> share_correct(torch.eye(3), torch.tensor([0, 1, 0]))
    0.6666666865348816
    """
    counted = targets != -100
    return float((logits.argmax(-1) == targets)[counted].float().mean())


def parameter_count(model: nn.Module) -> int:
    """Return the number of trainable parameters.

    >>> parameter_count(nn.Linear(2, 3))
    9
    """
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def match_parameters(make: Callable[[int], nn.Module], target: int, widths: range) -> nn.Module:
    """Return the model, among `make(width)` for these widths, whose parameter count is nearest to the target.

    The count must grow with the width: the width is found by bisection.

    >>> match_parameters(lambda width: nn.Linear(width, width, bias=False), 100, range(1, 20)).in_features
    10
    """
    with torch.device("meta"):
        above = bisect_left(widths, target, key=lambda width: parameter_count(make(width)))
        nearest = [widths[at] for at in (above - 1, above) if 0 <= at < len(widths)]
        width = min(nearest, key=lambda width: abs(parameter_count(make(width)) - target))
    return make(width)
