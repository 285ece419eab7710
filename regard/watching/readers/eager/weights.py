"""Weights of eager attention, followed from the softmax to the product with values."""

from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from regard.watching.readers.eager import elementwise_products
from regard.watching.readers.eager.axis_tracking import follow_axis
from regard.watching.readers.eager.function_call import FunctionCall
from regard.watching.readers.eager.function_sets import DIVISIONS, DROPOUT, MULTIPLICATIONS, SUMS, WRITES
from regard.watching.readers.eager.tracker import Tracker
from regard.watching.readers.eager.trails import Trail


def continue_weights(
    tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail, followed: list[tuple[Tensor, Trail]]
) -> None:
    """Follow weights through a function that is not a product of matrices."""
    func, args, out = call.func, call.args, call.out
    if func in SUMS and (axis := _divisor_axis(call, x, trail)) is not None:
        tracker.follow(out, Trail("sum", axis, softmax=trail.softmax))
        return
    if func in DIVISIONS and (divisor := tracker.trail_of_argument(args, 1)) is not None and divisor.stage == "sum":
        trail = replace(trail, axis=divisor.axis)  # normalized again, perhaps over another axis
        if trail.softmax is not None and divisor.axis is not None:
            trail.softmax.size = x.shape[divisor.axis]
    if func is F.normalize and call.normalizes_sum():
        trail = replace(trail, axis=call.normalized_axis(x))
    if func in MULTIPLICATIONS and isinstance(out, Tensor) and elementwise_products.weighs(args, x, out):
        elementwise_products.weigh(tracker, args, x, trail, out)
        return
    for _, other in followed:  # of two softmaxes that are added or stacked one is followed on
        if other.softmax is not None and other.softmax is not trail.softmax and other.stage == "weights":
            other.softmax.merged = True
    pass_on(tracker, call, x, trail)


def _divisor_axis(call: FunctionCall, x: Tensor, trail: Trail) -> int | None:
    """Return the axis of a sum of weights by which they may be divided; None for a sum over heads."""
    dims = call.reduced_axes(x)
    keeps = call.kwargs.get("keepdim", len(call.args) > 2 and call.args[2])
    return dims[0] if len(dims) == 1 and (keeps or dims[0] == trail.axis) else None


def pass_on(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> None:
    """Follow the axis of the keys through a function that is not a product."""
    func, args, kwargs, out = call.func, call.args, call.kwargs, call.out
    assert trail.axis is not None
    if func in WRITES:
        _write(tracker, call, x, trail)
        return
    if func in DROPOUT and out is x and call.drops():  # in place: the weights before it are gone
        _forget(tracker, x, trail, "dropout in place")
        return
    for y, axis in follow_axis(func, args, kwargs, x, trail.axis, out):
        if axis is None:
            _forget(tracker, y, trail, call.name)
            continue
        value: Tensor | None = None
        if func in DROPOUT and call.drops():
            value = x if trail.value is None else trail.value
        elif trail.value is not None:
            value = _without_dropout(tracker, call, y)
        tracker.follow(y, replace(trail, axis=axis, value=value))


def _forget(tracker: Tracker, y: Tensor, trail: Trail, where: str) -> None:
    tracker.trails.pop(id(y), None)
    if trail.softmax is not None and y.numel() > 1 and y.dtype.is_floating_point:
        trail.softmax.lost_in = where


def _write(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> None:
    """Follow weights that are written into a part of another tensor, or the tensor they are written into."""
    target = call.args[0] if call.out is None else call.out
    if not isinstance(target, Tensor) or trail.axis is None:
        return
    if call.args[0] is x:  # the weights are changed in place
        tracker.follow(target, trail)
    elif target.dim() >= -trail.axis:
        tracker.follow(target, replace(trail, value=None))


def _without_dropout(tracker: Tracker, call: FunctionCall, out: Tensor) -> Tensor:
    """Apply a function to what its arguments would be without dropout."""

    def clean(x: Any) -> Any:
        if isinstance(x, list | tuple):
            return type(x)(map(clean, x)) if type(x) in (list, tuple) else x
        trail = tracker.trail(x) if isinstance(x, Tensor) else None
        return x if trail is None or trail.value is None else trail.value

    result = call.func(*map(clean, call.args), **{name: clean(x) for name, x in call.kwargs.items()})
    return result if isinstance(result, Tensor) else out
