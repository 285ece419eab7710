"""What changes the scores between their scaling and softmax: softcap and a score function.

    s = scale · q kᵀ        s ← c · tanh(s / c)        s ← s + bias        s ← score_mod(s, b, h, q_idx, k_idx)

Hidden pairs are −inf afterwards, whatever the function returns for them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

ScoreFunction = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class ScoreChange(NamedTuple):
    """Softcap c > 0, or None, and a function of score, batch item, head, query and key, or None."""

    softcap: float | None = None
    function: ScoreFunction | None = None

    def cap(self, scores: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
        """Return the scores after softcap; differentiable."""
        return scores if self.softcap is None else (scores / self.softcap).tanh() * self.softcap

    def apply(
        self, scores: Float[Tensor, "b h l s"], added: Float[Tensor, "..."] | None, at: tuple[range, slice, slice]
    ) -> Float[Tensor, "b h l s"]:
        """Return the scaled scores after softcap, plus `added`, after the function; differentiable.

        at      batch items, queries and keys of the scores
        """
        scores = self.cap(scores)
        if self.function is None:
            return scores if added is None else scores + added.to(scores.dtype)
        hidden = None
        if added is not None:
            # The function receives finite numbers: from −inf it could return NaN, or +inf.
            hidden = added.isneginf()
            scores = scores + added.to(scores.dtype).masked_fill(hidden, 0.0)
        device = scores.device
        b, i, j = (torch.arange(part.start, part.stop, part.step or 1, device=device) for part in at)
        h = torch.arange(scores.shape[1], device=device)
        result: Any = self.function(scores, b[:, None, None, None], h[:, None, None], i[:, None], j)
        if not isinstance(result, Tensor) or not result.dtype.is_floating_point:
            kind = result.dtype if isinstance(result, Tensor) else type(result).__name__
            raise TypeError(f"score_mod must return a floating point tensor of scores, got {kind}")
        try:
            result = result.to(scores.dtype).expand(scores.shape)
        except RuntimeError:
            raise ValueError(
                f"score_mod returned a tensor of shape {tuple(result.shape)} for scores of shape "
                f"{tuple(scores.shape)}; it must return one score per pair"
            ) from None
        return result if hidden is None else result.masked_fill(hidden, float("-inf"))


def score_change(softcap: float | None, score_mod: ScoreFunction | None) -> ScoreChange | None:
    """Return the change that two arguments of `attend` describe; None if both are None.

    >>> score_change(0.0, None)
    Traceback (most recent call last):
    ValueError: softcap must be a finite number greater than 0, or None for no cap, got 0.0
    """
    if softcap is None and score_mod is None:
        return None
    if softcap is not None:
        if isinstance(softcap, bool) or not isinstance(softcap, int | float):
            raise TypeError(f"softcap must be a number, or None for no cap, got {type(softcap).__name__}")
        if not 0 < softcap < float("inf"):
            raise ValueError(f"softcap must be a finite number greater than 0, or None for no cap, got {softcap}")
    if score_mod is not None and not callable(score_mod):
        raise TypeError(
            f"score_mod must be a function of (score, b, h, q_idx, k_idx), or None, got {type(score_mod).__name__}"
        )
    return ScoreChange(None if softcap is None else float(softcap), score_mod)
