"""The loss of a language model, from states to one number, without ever holding all scores."""

import torch.nn.functional as F
from torch import Tensor


def cross_entropy(
    states: Tensor,
    table: Tensor,
    targets: Tensor,
    *,
    bias: Tensor | None = None,
    ignore: int = -100,
    smoothing: float = 0.0,
) -> Tensor:
    """The mean cross-entropy of targets (...) under scores = states (..., D) tableᵀ + bias."""
    scores = F.linear(states, table, bias)
    return F.cross_entropy(scores.flatten(0, -2), targets.flatten(), ignore_index=ignore, label_smoothing=smoothing)
