"""Optimizers: AdamW, and Muon for matrices with AdamW for all other parameters.

Muon moves a matrix by the same amount in every direction of its gradient. A few directions make up most of a gradient;
Muon replaces the momentum M = U Σ Vᵀ by about U Vᵀ (five steps of an odd polynomial bring every singular value near 1),
so that rare directions are learnt as fast as frequent ones. The weights of a convolution count as a matrix with one row
per output channel.

The steps of Muon are scaled to the usual length of steps of AdamW, so both use the same learning rate.
Parameters that are no matrix, or have fewer than `MIN_SIDE` rows or columns, are left to AdamW. torch.optim.Muon
accepts no convolutions and computes in bfloat16, which is slow on processors without bfloat16 units.

    Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024
    Liu et al., Muon is scalable for LLM training, 2025: the length of a step
"""

from collections.abc import Callable, Iterable
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from regard.training.settings import Settings

MIN_SIDE = 8
MOMENTUM = 0.95
STEP_LENGTH = 0.2  # typical change of a weight by AdamW, divided by its learning rate
ITERATIONS = 5
A, B, C = 3.4445, -4.7750, 2.0315  # repeated, a x + b x³ + c x⁵ moves x away from 0 and into 0.7 … 1.2


def make_optimizer(model: nn.Module, settings: Settings, device: torch.device) -> torch.optim.Optimizer:
    """Return AdamW, or Muon, for the model's parameters; weight decay applies to matrices only."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in parameters if settings.optimizer == "muon" and is_matrix(parameter)]
    excluded = set(matrices)
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.dim() > 1 and p not in excluded]},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    options: dict[str, Any] = {
        "lr": settings.learning_rate, "betas": settings.betas, "weight_decay": settings.weight_decay,
        "fused": device.type in ("cpu", "cuda"),
    }  # fmt: skip
    if settings.optimizer == "muon":
        return Muon(matrices, groups, **options)
    return torch.optim.AdamW(groups, **options)


def apply_gradients(network: nn.Module, optimizer: torch.optim.Optimizer, learning_rate: float, clip: float) -> Tensor:
    """Clip the gradients, do one optimizer step, clear the gradients; return their norm before clipping."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    norm = nn.utils.clip_grad_norm_(network.parameters(), clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm


def orthogonalize(matrix: Tensor) -> Tensor:
    """Return approximately the nearest matrix with orthonormal rows (or columns, if it has more rows than columns).

    >>> result = orthogonalize(torch.tensor([[9.0, 0.0, 0.0], [0.0, 0.1, 0.0]]))
    >>> (torch.linalg.svdvals(result) - 1).abs().amax() < 0.35, result[0, 1].item()
    (tensor(True), 0.0)
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.mT if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = torch.addmm(x, torch.addmm(square, square, square, beta=B, alpha=C), x, beta=A)
    return x.mT if tall else x


class Muon(torch.optim.AdamW):
    """Muon for matrices and AdamW for other parameters, in one optimizer.

    matrices    parameters with two or more dimensions; the first dimension counts as rows
    groups      parameter groups of all other parameters, for AdamW
    options     options of AdamW; the matrices use its learning rate and weight decay
    """

    def __init__(self, matrices: Iterable[nn.Parameter], groups: Iterable[dict[str, Any]], **options: Any) -> None:
        super().__init__(list(groups), **options)
        self.add_param_group({"params": list(matrices), "muon": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]  # torch's has overloads
        """Do one step; the gradients of the matrices are removed."""
        for group in self.param_groups:
            if group.get("muon"):
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._update_matrix(parameter, parameter.grad, group["lr"], group["weight_decay"])
                        parameter.grad = None  # AdamW skips parameters without gradient
        return super().step(closure)

    def _update_matrix(self, parameter: nn.Parameter, gradient: Tensor, rate: float, decay: float) -> None:
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(gradient, 1 - MOMENTUM)
        update = orthogonalize(gradient.lerp(state["momentum"], MOMENTUM).flatten(1))
        parameter.mul_(1 - rate * decay)
        parameter.add_(update.view(parameter.shape), alpha=-rate * STEP_LENGTH * sqrt(max(update.shape)))


def is_matrix(parameter: nn.Parameter) -> bool:
    """Return whether Muon updates the parameter: at least MIN_SIDE rows and columns; AdamW updates the others."""
    return parameter.dim() > 1 and min(parameter.shape[0], parameter[0].numel()) >= MIN_SIDE
