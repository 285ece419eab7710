"""Changes of eager attention: the model's own product with the values uses the changed weights.

The changed weights are written into the tensor that the model multiplies, so that everything that sees this tensor,
`regard.watch` included, sees them. With gradients, the result of the softmax, which its backward needs, is copied first
(`copy_of_weights`).
"""

from typing import Any

import torch
from torch import Tensor

from regard.watching.call import Call
from regard.watching.interventions.call_changes import CallChanges
from regard.watching.readers.eager.function_sets import EXP, SOFTMAX
from regard.watching.readers.eager.tracker import Tracker
from regard.watching.readers.eager.trails import Layout, Weighing
from regard.watching.readers.eager.value_products import WEIGHING
from regard.watching.weights.weight_edits import Rows, apply_edits


def copy_of_weights(tracker: Tracker, func: Any, out: Any) -> Any:
    """Return the result of a function; a copy if it holds weights that the backward of the function needs."""
    trail = tracker.trail(out) if isinstance(out, Tensor) and (func in SOFTMAX or func in EXP) else None
    if trail is None or trail.stage not in WEIGHING or not out.requires_grad:
        return out
    copy = torch.clone(out)  # seen by the recorders around
    tracker.follow(copy, trail)
    return copy


def eager_call(name: str, weighing: Weighing, layout: Layout) -> Call:
    """Return the call of a product of weights with values, with a copy of its weights before dropout."""
    weights = layout.weights if layout.before_dropout is None else layout.before_dropout
    arranged = _four_axes(weights.permute(layout.order).reshape(weighing.weights.shape)).clone()
    values = _four_axes(layout.arranged_values)
    batch, heads, length, size = arranged.shape
    call = Call(name, "eager softmax", (batch, heads, length, size), weighing.scale, eager_weights=arranged)
    call.values = values.expand(batch, *values.shape[1:]) if values.shape[0] == 1 else values
    return call


def no_base() -> Tensor:
    """Stand for the function that computes the output of a fused call; eager attention has none."""
    raise AssertionError("eager attention has no function that computes its output")


def _four_axes(x: Tensor) -> Tensor:
    return x[(None,) * (4 - x.dim())] if x.dim() < 4 else x.flatten(0, x.dim() - 4)


def write_weights(changes: CallChanges, layout: Layout) -> None:
    """Apply the edits of a call to its weights, and write the result where the model reads them."""
    call = changes.call
    if not call.edits or call.eager_weights is None:
        return
    edited = apply_edits(call, call.eager_weights, list(call.edits), Rows().indices(call))
    restored = _restore(edited, layout.weights, layout.order)
    if layout.before_dropout is None:
        _write(layout.weights, restored, call.name)
        return
    # Dropout has multiplied each weight by 0 or 1 / (1 − p): the changed weights get the same factor.
    before = layout.before_dropout.detach()
    if bool(((before == 0) & (restored.detach() != 0)).any()):
        raise ValueError(
            f"{call.name or 'the model'!r} applies dropout to eager weights, and the intervention gives weight to keys "
            "that had none, so that it is not known which weights are dropped; run model.eval() or fused attention"
        )
    factor = (layout.weights.detach() / before).masked_fill(before == 0, 0.0)
    _write(layout.before_dropout, restored, call.name)
    _write(layout.weights, restored * factor, call.name)


def changed_values(changes: CallChanges, layout: Layout) -> Tensor:
    """Return the values of a call as the model multiplies them."""
    values = changes.call.v
    if values.numel() != layout.values.numel():
        raise NotImplementedError(
            f"heads share the values of {changes.call.name or 'the model'!r}; patch all of them, or its outputs"
        )
    return _restore(values, layout.values, layout.values_order)


def _write(target: Tensor, new: Tensor, name: str) -> None:
    if any(stride == 0 and size > 1 for stride, size in zip(target.stride(), target.shape, strict=True)):
        raise NotImplementedError(
            f"{name or 'the model'!r} multiplies expanded weights of shape {tuple(target.shape)} with its values; "
            "they share memory and cannot be changed"
        )
    target.copy_(new)


def _restore(arranged: Tensor, like: Tensor, order: list[int]) -> Tensor:
    """Return a tensor whose axes were permuted in this order and joined, with the axes of `like`."""
    return arranged.reshape([like.shape[axis] for axis in order]).permute(torch.tensor(order).argsort().tolist())


def change_output(changes: CallChanges, layout: Layout, out: Tensor) -> tuple[Tensor, Tensor]:
    """Return the result of the product with the changes of the output, and the outputs (B, H, L, d_v)."""
    if layout.output_order is None:
        raise NotImplementedError(
            f"the axes of the heads in the output of {changes.call.name or 'the model'!r} are not known; change its "
            "weights instead"
        )
    outputs = out.permute(layout.output_order).reshape(*changes.call.shape[:3], -1).clone()
    for change in changes.output_changes:
        outputs = change(outputs)
    return _restore(outputs, out, layout.output_order), outputs
