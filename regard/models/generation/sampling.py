"""Choose the next token from its scores.

greedy          the largest score
temperature     sample from softmax(scores / temperature): below 1 closer to greedy, above 1 closer to uniform
top-k           only the k largest scores
top-p           only the likeliest tokens that together reach probability p, at least one
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """Rule that chooses tokens; temperature 0 is greedy. Top-k is applied before top-p, both after the temperature."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not self.temperature >= 0 or self.temperature == float("inf"):
            raise ValueError(f"temperature must be 0 (greedy) or a positive number, got {self.temperature}")
        if self.top_k is not None and (not isinstance(self.top_k, int) or self.top_k < 1):
            raise ValueError(f"top_k must be a whole number of at least 1, got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be more than 0 and at most 1, got {self.top_p}")
        if self.temperature == 0 and not (self.top_k is self.top_p is None):
            raise ValueError("top_k and top_p have no effect at temperature 0 (greedy); pass temperature=1.0")

    def __call__(self, scores: Float[Tensor, "b v"], generator: torch.Generator | None = None) -> Int[Tensor, " b"]:
        """Return one token (B,) for each row of scores (B, V)."""
        if self.temperature == 0:
            return scores.argmax(-1)
        return torch.multinomial(self.probabilities(scores), 1, generator=generator)[:, 0]

    def probabilities(self, scores: Float[Tensor, "b v"]) -> Float[Tensor, "b v"]:
        """Return the probability with which each token is sampled, (B, V).

        >>> Sampling(1.0, top_k=2).probabilities(torch.tensor([[0.0, 0.0, -9.0]]))
        tensor([[0.5000, 0.5000, 0.0000]])
        """
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)) / self.temperature
        if self.top_k is not None and self.top_k < scores.shape[-1]:
            top = scores.topk(self.top_k, -1)
            scores = torch.full_like(scores, float("-inf")).scatter(-1, top.indices, top.values)
        probabilities = scores.softmax(-1)
        if self.top_p is not None and self.top_p < 1:
            ordered, index = probabilities.sort(-1, descending=True)
            surplus = ordered.cumsum(-1) - ordered >= self.top_p  # the likelier tokens already reach p
            probabilities = probabilities.scatter(-1, index, ordered.masked_fill(surplus, 0.0))
            probabilities = probabilities / probabilities.sum(-1, keepdim=True)
        return probabilities
