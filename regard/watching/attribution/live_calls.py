"""Recorded calls whose tensors are still in the graph of the model, so that gradients flow through them."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from regard.watching.call_inputs import TENSORS, CallInputs
from regard.watching.readers.eager.trails import Layout


class OutputGradient:
    """Where the gradient of a call's output passes through the graph, and the gradient while a backward pass runs.

    Of eager attention, it is the gradient of the weights that the model multiplies with its values.
    """

    def __init__(self, edge: GradientEdge, shape: tuple[int, int, int], layout: Layout | None) -> None:
        self.edge, self.shape = edge, shape
        self.order = None if layout is None else layout.order
        self.value: Tensor | None = None

    def arranged(self) -> Float[Tensor, "batch heads queries last"]:
        """Return the gradient with the axes that the call had when it was recorded."""
        assert self.value is not None
        x = self.value if self.order is None else self.value.permute(self.order)
        return x.reshape(*self.shape, -1)


def live_call(call: CallInputs, out: Any, layout: Layout | None) -> CallInputs | None:
    """Return a copy of a call that keeps its tensors in the graph; None if none of them has gradients.

    out     output of the attention function, as the model goes on with it
    layout  of eager attention
    """
    x = layout.weights if layout is not None else out if call.eager_weights is None else None
    tensors = (getattr(call, name) for name in TENSORS)
    if not any(isinstance(y, Tensor) and y.requires_grad for y in (x, *tensors)):
        return None
    live = replace(call, computed={}, versions={})
    if layout is not None:
        weights = layout.weights if layout.before_dropout is None else layout.before_dropout
        live.eager_weights = weights.permute(layout.order).reshape(call.shape)
    if (
        isinstance(x, Tensor)
        and x.requires_grad
        and not (x.is_nested or torch._C._functorch.is_functorch_wrapped_tensor(x))
    ):
        live.gradient = OutputGradient(get_gradient_edge(x), call.shape[:3], layout)
        live.output_gradients = live.gradient.arranged
    return live


def require_live(call: CallInputs, purpose: str) -> CallInputs:
    """Return the call with its tensors in the graph; raise ValueError if it was recorded without gradients."""
    if call.live is None:
        raise ValueError(
            f"{purpose} needs the graph of gradients, but call {call.name!r} was recorded without it: run the model "
            "with gradients (no torch.no_grad or inference_mode, at least one tensor that requires them) and with "
            "keep='inputs'"
        )
    return call.live
