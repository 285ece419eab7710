"""Muon: a matrix moves by the same amount in every direction that its gradient knows.

Few directions make up most of a matrix's gradient. Its momentum M = U Σ Vᵀ is replaced by about U Vᵀ (five steps of an
odd polynomial bring every singular value near 1), so that what is seldom asked for is learnt as fast as what always
is. A convolution's weights count as a matrix with one row for each channel that it makes.

A step is as long as one of AdamW with the same learning rate usually is, so that both can share one: what is no
matrix, or one with fewer than FEWEST rows or columns, is left to AdamW. torch.optim.Muon takes no convolutions and
computes in bfloat16, which is slow on processors that have no such unit.

    Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024
    Liu et al., Muon is scalable for LLM training, 2025: the length of a step
"""

from collections.abc import Callable, Iterable
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

FEWEST = 8
MOMENTUM = 0.95
LENGTH = 0.2  # by which AdamW usually changes a weight, over its learning rate
STEPS = 5
A, B, C = 3.4445, -4.7750, 2.0315  # a x + b x³ + c x⁵ steeply leads away from 0, and then stays between 0.7 and 1.2


def orthogonal(matrix: Tensor) -> Tensor:
    """About the nearest matrix with orthogonal rows (columns, if there are more rows than columns) of length one.

    >>> found = orthogonal(torch.tensor([[9.0, 0.0, 0.0], [0.0, 0.1, 0.0]]))
    >>> (torch.linalg.svdvals(found) - 1).abs().amax() < 0.35, found[0, 1].item()
    (tensor(True), 0.0)
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.mT if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(STEPS):
        square = x @ x.mT
        x = torch.addmm(x, torch.addmm(square, square, square, beta=B, alpha=C), x, beta=A)
    return x.mT if tall else x


class Muon(torch.optim.AdamW):
    """Muon for matrices, AdamW for all else, in one.

    matrices    parameters of two or more dimensions; the first is the rows
    rest        groups of all other parameters, for AdamW
    options     of AdamW; the matrices take its learning rate and weight decay
    """

    def __init__(self, matrices: Iterable[nn.Parameter], rest: Iterable[dict[str, Any]], **options: Any) -> None:
        super().__init__(list(rest), **options)
        self.add_param_group({"params": list(matrices), "by_direction": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]  # torch's has overloads
        """One step of each; the matrices' gradients are used up."""
        for group in self.param_groups:
            if group.get("by_direction"):
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._turn(parameter, group["lr"], group["weight_decay"])
                        parameter.grad = None  # AdamW passes over it
        return super().step(closure)

    def _turn(self, parameter: nn.Parameter, rate: float, decay: float) -> None:
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(gradient, 1 - MOMENTUM)
        update = orthogonal(gradient.lerp(state["momentum"], MOMENTUM).flatten(1))
        parameter.mul_(1 - rate * decay)
        parameter.add_(update.view(parameter.shape), alpha=-rate * LENGTH * sqrt(max(update.shape)))


def is_matrix(parameter: nn.Parameter) -> bool:
    """Whether Muon takes it."""
    return parameter.dim() > 1 and min(parameter.shape[0], parameter[0].numel()) >= FEWEST
