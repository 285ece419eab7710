"""The loss of a language model, from states to one number, without ever holding all scores.

    z = s Wᵀ + b        loss = log Σ_j exp z_j − z_target        dz = softmax(z) − onehot(target)
                        ds = dz W        dW = dzᵀ s        db = Σ dz

The scores of 2,048 tokens over 8,192 words are 64 MB, written and read five times on the way to the loss and back.
Here they are made for some tokens at a time, in one buffer that stays in the processor's cache, and turned into the
gradients at once: what backward needs is then no larger than s and W. Tokens without a target are left out before.
"""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

SCORES_AT_ONCE = 1 << 21  # 8 MB of float32
LEAST_ROWS = 128  # fewer, and adding to the gradient of W would cost more than the product

Reduction = Literal["mean", "sum"]


def cross_entropy(
    states: Float[Tensor, "*b d"],
    table: Float[Tensor, "v d"],
    targets: Int[Tensor, "*b"],
    *,
    bias: Float[Tensor, " v"] | None = None,
    ignore: int = -100,
    smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""]:
    """Cross-entropy of targets (...) under the scores states (..., D) · table (V, D)ᵀ + bias (V,).

    ignore      the target of tokens that do not count; if none counts, the loss is 0
    smoothing   this share of the target's probability is spread over all words
    reduction   "mean" over the tokens that count, or their "sum"

    >>> states, table, targets = torch.randn(2, 5, 8), torch.randn(100, 8), torch.randint(100, (2, 5))
    >>> theirs = F.cross_entropy((states @ table.T).flatten(0, 1), targets.flatten())
    >>> torch.allclose(cross_entropy(states, table, targets), theirs)
    True
    """
    if states.shape[:-1] != targets.shape:
        raise ValueError(
            f"a target for every state: states (..., D) and targets (...), got {tuple(states.shape)} and "
            f"{tuple(targets.shape)}"
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
    _check_targets(targets, len(table))
    if _fits(states, table):
        total: Tensor = _Chunked.apply(states, table, bias, targets, smoothing)  # type: ignore[no-untyped-call]
    else:
        scores = F.linear(states, table, bias)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        total = F.cross_entropy(scores, targets, label_smoothing=smoothing, reduction="sum")
    return total / len(targets) if reduction == "mean" else total


def _check_targets(targets: Tensor, vocabulary: int) -> None:
    low, high = (int(x) for x in targets.aminmax())
    if low < 0 or high >= vocabulary:
        raise ValueError(f"targets must lie in 0 … {vocabulary - 1} or be `ignore`, got {low} … {high}")


def _fits(states: Tensor, table: Tensor) -> bool:
    """Whether the scores may be made in pieces: full precision, and nobody tracing or casting."""
    return (
        states.dtype == table.dtype
        and states.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled(states.device.type)
        and not torch.compiler.is_compiling()
        and torch._C._functorch.peek_interpreter_stack() is None
    )


class _Chunked(torch.autograd.Function):
    """The sum of losses of s (N, D), with its gradients computed on the way."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> Tensor:
        wanted = ctx.needs_input_grad[:3]
        grads = [
            torch.empty_like(x, memory_format=torch.contiguous_format) if x is not None and want else None
            for x, want in zip((states, table, bias), wanted, strict=True)
        ]
        rows, vocabulary = len(states), len(table)
        step = max(LEAST_ROWS, SCORES_AT_ONCE // vocabulary)
        buffer = states.new_empty(min(step, rows), vocabulary)
        total = states.new_zeros((), dtype=torch.float64)
        for start in range(0, rows, step):
            piece = slice(start, min(start + step, rows))
            s, z = states[piece], buffer[: min(step, rows - start)]
            if bias is None:
                torch.mm(s, table.T, out=z)
            else:
                torch.addmm(bias, s, table.T, out=z)
            total += _loss_and_gradient(z, targets[piece, None], smoothing, any(wanted))
            _add_gradients(grads, piece, z, s, table)
        ctx.save_for_backward(*grads)
        return total.to(states.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if x is None else x * grad for x in ctx.saved_tensors), None, None


def _loss_and_gradient(
    z: Float[Tensor, "n v"], targets: Int[Tensor, "n 1"], smoothing: float, gradient: bool
) -> Tensor:
    """The sum of the losses of scores z (n, V), which become their own gradient if that is wanted."""
    highest, hit = z.amax(-1, keepdim=True), z.gather(1, targets)
    said = hit if not smoothing else (1 - smoothing) * hit + smoothing * z.mean(-1, keepdim=True)
    if not gradient:
        return (z.logsumexp(-1, keepdim=True) - said).sum(dtype=torch.float64)
    torch.softmax(z, -1, out=z)
    # The largest probability is exp(highest − lse): from it comes the log-sum-exp, without another exp of everything.
    lse = highest - z.amax(-1, keepdim=True).log()
    z.scatter_add_(1, targets, torch.full_like(hit, smoothing - 1))
    if smoothing:
        z.sub_(smoothing / z.shape[-1])
    return (lse - said).sum(dtype=torch.float64)


def _add_gradients(grads: list[Tensor | None], piece: slice, dz: Tensor, s: Tensor, table: Tensor) -> None:
    of_states, of_table, of_bias = grads
    first = piece.start == 0  # what was never written must not be added to
    if of_states is not None:
        torch.mm(dz, table, out=of_states[piece])
    if of_table is not None:
        of_table.addmm_(dz.T, s, beta=0 if first else 1)
    if of_bias is not None:
        of_bias.copy_(dz.sum(0)) if first else of_bias.add_(dz.sum(0))
