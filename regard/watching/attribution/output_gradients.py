"""Gradients of the outputs of recorded calls, from one backward pass, in the order in which it reaches them.

The gradients of all calls together would need as much memory as the activations of the model. So each is handed to a
function as soon as it is known, from the last call to the first, and then dropped.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.listeners import listeners_muted
from regard.watching.attribution.live_calls import OutputGradient, require_live
from regard.watching.call import full_precision
from regard.watching.call_inputs import CallInputs

Visit = Callable[[int, Float[Tensor, "batch heads queries last"]], None]


def visit_gradients(calls: Sequence[CallInputs], target: Tensor, purpose: str, visit: Visit) -> None:
    """Call visit(number, gradient) for every call that the target depends on, later calls first.

    The gradient is that of the outputs (B, H, L, d_v); of eager attention that of the weights (B, H, L, S).
    """
    target = _scalar(target, purpose)
    gradients = [_gradient(call, purpose) for call in calls]

    def accept(number: int, value: Tensor | None) -> None:
        if value is None:
            return
        call, gradient = calls[number], gradients[number]
        gradient.value = value.detach()
        try:
            with listeners_muted, torch._C.DisableTorchFunction(), full_precision(call):
                live = require_live(call, purpose)
                assert callable(live.output_gradients)
                visit(number, live.output_gradients())
        finally:
            gradient.value = None

    # autograd holds the gradients that it returns until the end, so only those are requested that lead to all others.
    first = _first_calls(gradients)
    hooks = [
        gradient.edge.node.register_prehook(_hook(accept, number, gradient.edge.output_nr))
        for number, gradient in enumerate(gradients)
        if number not in first
    ]
    try:
        edges = [gradients[number].edge for number in first]
        values = list(torch.autograd.grad(target, edges, retain_graph=True, allow_unused=True))
    finally:
        for hook in hooks:
            hook.remove()
    for number in reversed(first):
        accept(number, values.pop())


def _hook(accept: Callable[[int, Tensor | None], None], number: int, output: int) -> Callable[..., None]:
    def hook(values: Any) -> None:
        accept(number, values[output])

    return hook


def _scalar(target: Tensor, purpose: str) -> Tensor:
    """Return the target as one number: the sum, if there is one for each batch item."""
    if not isinstance(target, Tensor) or target.dim() > 1 or target.is_complex():
        got = f"shape {tuple(target.shape)}" if isinstance(target, Tensor) else type(target).__name__
        raise ValueError(
            f"{purpose} needs one number of the model's output, or one for each batch item (B,), such as "
            f"logits[:, -1, token]; got {got}"
        )
    if not target.requires_grad:
        raise ValueError(f"{purpose}: the target has no gradient; compute it from the output of the watched run")
    return target.sum()


def _gradient(call: CallInputs, purpose: str) -> OutputGradient:
    gradient = require_live(call, purpose).gradient
    if gradient is None:
        raise ValueError(
            f"{purpose}: the gradient of the output of call {call.name!r} is not known, because the call is made "
            f"inside torch.func, with nested tensors, or by eager attention in a form ({call.kernel}) that is only read"
        )
    if call.folded:
        raise ValueError(
            f"{purpose}: call {call.name!r} holds batch and heads in one axis, which could not be separated; run a "
            "batch of 1"
        )
    return gradient


def _first_calls(gradients: Sequence[OutputGradient]) -> list[int]:
    """Return the calls that depend on no other call."""
    of_calls = {gradient.edge.node for gradient in gradients}
    depends: dict[Any, bool] = {}  # node → whether a call comes before it; holds the nodes, so that they stay the same
    for gradient in gradients:
        stack = [(gradient.edge.node, False)]
        while stack:
            node, done = stack.pop()
            before = [following for following, _ in node.next_functions if following is not None]
            if done:
                depends[node] = any(x in of_calls or depends[x] for x in before)
            elif node not in depends:
                depends[node] = False
                stack.append((node, True))
                stack += [(x, False) for x in before if x not in depends]
    return [number for number, gradient in enumerate(gradients) if not depends[gradient.edge.node]]
