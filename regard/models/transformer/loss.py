"""Cross-entropy of a language model, computed from states without holding the scores of all tokens.

    z = s Wᵀ + b        loss = log Σ_j exp z_j − z_target        dz = softmax(z) − onehot(target)
                        ds = dz W        dW = dzᵀ s        db = Σ dz

The scores of 2,048 tokens over a vocabulary of 8,192 are 64 MB, and a plain implementation writes and reads them five
times. Here they are computed for some tokens at a time, in one buffer that stays in the processor's cache, and turned
into gradients at once; the tensors saved for backward have the sizes of s and W. Tokens without a target are left out.
"""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.kernels.private_torch_operators import in_forward_mode, in_func_transform, in_graph

BUFFER_SIZE = 1 << 21  # scores at a time: 8 MB of float32
MIN_ROWS = 128  # with fewer rows at a time, adding to the gradient of W takes longer than the product

Reduction = Literal["mean", "sum"]


def cross_entropy(
    states: Float[Tensor, "*b d"], table: Float[Tensor, "v d"], targets: Int[Tensor, "*b"], *,
    bias: Float[Tensor, " v"] | None = None, ignore: int = -100, smoothing: float = 0.0, reduction: Reduction = "mean",
) -> Float[Tensor, ""]:  # fmt: skip
    """Return the cross-entropy of targets (...) under the scores states (..., D) · table (V, D)ᵀ + bias (V,).

    ignore      target of tokens that do not count; if no token counts, the loss is 0
    smoothing   share of the target's probability that is spread over the whole vocabulary
    reduction   "mean" or "sum" over the tokens that count

    >>> states, table, targets = torch.randn(2, 5, 8), torch.randn(100, 8), torch.randint(100, (2, 5))
    >>> expected = F.cross_entropy((states @ table.T).flatten(0, 1), targets.flatten())
    >>> torch.allclose(cross_entropy(states, table, targets), expected)
    True
    """
    if states.shape[:-1] != targets.shape:
        raise ValueError(
            f"states (..., D) need one target each, targets (...); got {tuple(states.shape)} and {tuple(targets.shape)}"
        )
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and less than 1, got {smoothing}")
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be 'mean' or 'sum', got {reduction!r}")
    states, targets = states.flatten(0, -2), targets.flatten()
    counted = targets != ignore
    if not bool(counted.all()):
        states, targets = states[counted], targets[counted]
    if not len(targets):
        return states.sum() * 0.0
    low, high = (int(x) for x in targets.aminmax())
    if low < 0 or high >= len(table):
        raise ValueError(f"targets must be in 0 … {len(table) - 1} or equal `ignore`, got {low} … {high}")
    if _can_use_chunks(states, table):
        total: Tensor = _ChunkedLoss.apply(states, table, bias, targets, smoothing)  # type: ignore[no-untyped-call]
    else:
        scores = F.linear(states, table, bias)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        total = F.cross_entropy(scores, targets, label_smoothing=smoothing, reduction="sum")
    return total / len(targets) if reduction == "mean" else total


def _can_use_chunks(states: Tensor, table: Tensor) -> bool:
    """Return whether both tensors are float32 or float64, outside of tracing, autocast and torch.func."""
    return (
        states.dtype == table.dtype
        and states.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled(states.device.type)
        and not (in_graph(states) or in_func_transform() or in_forward_mode())
    )


class _ChunkedLoss(torch.autograd.Function):
    """Sum of the losses of the states s (N, D); forward also computes the gradients."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> Tensor:
        needed = ctx.needs_input_grad[:3]
        grads = [
            torch.empty_like(x, memory_format=torch.contiguous_format) if x is not None and need else None
            for x, need in zip((states, table, bias), needed, strict=True)
        ]
        rows, vocabulary = len(states), len(table)
        step = max(MIN_ROWS, BUFFER_SIZE // vocabulary)
        buffer = states.new_empty(min(step, rows), vocabulary)
        total = states.new_zeros((), dtype=torch.float64)
        for start in range(0, rows, step):
            chunk = slice(start, min(start + step, rows))
            s, z = states[chunk], buffer[: min(step, rows - start)]
            if bias is None:
                torch.mm(s, table.T, out=z)
            else:
                torch.addmm(bias, s, table.T, out=z)
            total += _loss_and_gradient(z, targets[chunk, None], smoothing, any(needed))
            _add_gradients(grads, chunk, z, s, table)
        ctx.save_for_backward(*grads)
        return total.to(states.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if x is None else x * grad for x in ctx.saved_tensors), None, None


def _loss_and_gradient(
    z: Float[Tensor, "n v"], targets: Int[Tensor, "n 1"], smoothing: float, gradient: bool
) -> Tensor:
    """Return the sum of the losses of scores z (n, V); z is overwritten by its gradient if that is needed."""
    highest, target_score = z.amax(-1, keepdim=True), z.gather(1, targets)
    expected = target_score
    if smoothing:
        expected = (1 - smoothing) * target_score + smoothing * z.mean(-1, keepdim=True)
    if not gradient:
        return (z.logsumexp(-1, keepdim=True) - expected).sum(dtype=torch.float64)
    torch.softmax(z, -1, out=z)
    # The largest probability is exp(highest − lse), which gives lse without another exp of all scores.
    lse = highest - z.amax(-1, keepdim=True).log()
    z.scatter_add_(1, targets, torch.full_like(target_score, smoothing - 1))
    if smoothing:
        z.sub_(smoothing / z.shape[-1])
    return (lse - expected).sum(dtype=torch.float64)


def _add_gradients(grads: list[Tensor | None], chunk: slice, dz: Tensor, s: Tensor, table: Tensor) -> None:
    states_grad, table_grad, bias_grad = grads
    first = chunk.start == 0  # the first chunk overwrites the uninitialised gradient
    if states_grad is not None:
        torch.mm(dz, table, out=states_grad[chunk])
    if table_grad is not None:
        table_grad.addmm_(dz.T, s, beta=0 if first else 1)
    if bias_grad is not None:
        bias_grad.copy_(dz.sum(0)) if first else bias_grad.add_(dz.sum(0))
