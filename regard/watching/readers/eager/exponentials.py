"""A softmax written by hand: exp(scores), its sum, and the division, before or after the product with values."""

from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from regard.watching.readers.eager import elementwise_products
from regard.watching.readers.eager.axis_tracking import RESHAPES, follow_axis
from regard.watching.readers.eager.function_call import FunctionCall, number
from regard.watching.readers.eager.function_sets import (
    ADDITIONS,
    CASTS,
    DIVISIONS,
    MULTIPLICATIONS,
    NO_SCORES,
    POWERS,
    RECIPROCALS,
    SCATTERED_SUMS,
    SUMS,
)
from regard.watching.readers.eager.products import PRODUCTS, Product, read_product
from regard.watching.readers.eager.scores import note_normalized
from regard.watching.readers.eager.tracker import Tracker
from regard.watching.readers.eager.trails import Softmax, Trail, Weighing
from regard.watching.readers.eager.value_products import follow_unnormalized, multiply
from regard.watching.readers.wrapped_tensors import unwrap


def continue_sum(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> None:
    """Follow the sum of exponentials to the division by it."""
    func, out = call.func, call.out
    if func in PRODUCTS:
        note_normalized(tracker, call, x)
    elif not isinstance(out, Tensor):
        return
    elif out.numel() == x.numel():  # a constant is added, or a minimum applied
        inverted = func in RECIPROCALS or (func in POWERS and number(call.power()[1]) == -1)
        tracker.follow(out, replace(trail, inverse=trail.inverse != inverted))
    elif func in DIVISIONS or (func in MULTIPLICATIONS and out.numel() > x.numel()):
        tracker.composed[tracker.module()] = (
            "it attends in pieces, or to a sink: it multiplies outputs with factors computed from sums of exponentials"
        )


def continue_exponentials(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> Weighing | None:
    """Follow exp(scores) to the division by its sum, or to the product with values."""
    func, out, divisor = call.func, call.out, _divisor(tracker, call)
    if divisor is not None:
        _start_weights(tracker, out, divisor[0].axis, trail)
    elif func is F.normalize and call.normalizes_sum():
        _start_weights(tracker, out, call.normalized_axis(x), trail)
    elif func in ADDITIONS and (total := _sum_among(tracker, call)) is not None:
        continue_sum(tracker, call, *total)  # exp(-max) is added: softmax plus one, with scores minus their maximum
    elif func in SUMS:
        axes = call.reduced_axes(x)
        if len(axes) == 1:
            tracker.follow(out, replace(trail, stage="sum", axis=axes[0]))
    elif func in SCATTERED_SUMS:
        tracker.lose(x, trail, call.name)
    elif func in PRODUCTS:
        product = read_product(func, call.args, call.kwargs)
        if product is not None and len(product.operands) == 1:
            axes = [i - x.dim() for i, label in enumerate(product.labels[0]) if label not in product.result]
            if len(axes) == 1:
                tracker.follow(out, replace(trail, stage="sum", axis=axes[0]))
        elif product is not None and (axis := _sums(product, x)) is not None:
            tracker.follow(out, replace(trail, stage="sum", axis=axis))
        elif product is not None:
            return multiply(tracker, product, out)
    elif func in MULTIPLICATIONS and (values := elementwise_products.values(call.args, x, out)) is not None:
        if not tracker.is_fixed(values):
            tracker.follow(out, replace(trail, stage="weighted exponentials", factors=(x, values)))
    elif func not in NO_SCORES:
        _pass_on(tracker, call, x, trail)
    return None


def _pass_on(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> None:
    if trail.axis is None:
        for y in call.outputs():
            tracker.follow(y, trail)
        return
    for y, axis in follow_axis(call.func, call.args, call.kwargs, x, trail.axis, call.out):
        if axis is not None:
            tracker.follow(y, replace(trail, axis=axis))


def _start_weights(tracker: Tracker, weights: Any, axis: int | None, trail: Trail) -> None:
    """Follow exponentials divided by their sum; over the axis of a parameter this is not attention."""
    if trail.axis is not None and axis == trail.axis:
        trail.scores.over_parameter = True
    else:
        tracker.start_weights(weights, axis, trail)


def _sums(product: Product, x: Tensor) -> int | None:
    """Return the axis of x that a product with ones sums over; None if the product is not such a sum."""
    axes = [product.summed_axes(i) for i, y in enumerate(product.operands) if y is x]
    ones = [y for y in product.operands if y is not x]
    if len(ones) != 1 or len(axes) != 1 or len(axes[0]) != 1 or ones[0].numel() != x.shape[axes[0][0]]:
        return None
    return axes[0][0] if ones[0].device.type != "meta" and bool((unwrap(ones[0].detach()) == 1).all()) else None


def continue_weighted_exponentials(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> Weighing | None:
    """Read the sum over the keys of exponentials × values; the exponentials may have been divided by their sum."""
    assert trail.factors is not None
    axes = call.reduced_axes(x) if call.func in SUMS else []
    weighing = None
    if len(axes) == 1:
        factor, values = trail.factors
        normalized = tracker.is_normalized(factor, axes[0])
        start = replace(trail, stage="exponentials", axis=axes[0])
        if normalized:
            tracker.start_weights(factor, axes[0], start)
            start = tracker.trail(factor) or start
        weighing = elementwise_products.arrange(tracker, factor, values, start, x)
        if weighing is not None and normalized:
            return elementwise_products.count_product(tracker, weighing, start)
    if weighing is None:
        tracker.lose(x, trail, call.name)
    else:
        weighing = replace(weighing, softmax=Softmax(tracker.module(), tuple(x.shape), scores=trail.scores))
        follow_unnormalized(tracker, call.out, weighing, trail)
    return None


def continue_unnormalized_output(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> Weighing | None:
    """Follow the product of exp(scores) with values to the division by the sum."""
    func, out, divisor = call.func, call.out, _divisor(tracker, call)
    if divisor is not None and trail.product is not None:
        sum_trail, sums = divisor
        return _normalize(tracker, trail, 1 / sums if sum_trail.inverse else sums, out)
    if func in RESHAPES or func in CASTS:
        tracker.follow(out, trail)
    elif func is Tensor.__getitem__ and out.numel() < x.numel():  # perhaps the sum was computed as one of the features
        tracker.follow(out, replace(trail, product=None))
    elif isinstance(out, Tensor) and out.numel() == x.numel() and out.dtype.is_floating_point:
        _lose(tracker, x, trail, f"{call.name}: parts that are added, or divided later")
    return None


def _lose(tracker: Tracker, x: Tensor, trail: Trail, where: str) -> None:
    if trail.product is None:
        tracker.lose(x, trail, where)
    else:
        trail.product.softmax.lost_in = where


def _sum_among(tracker: Tracker, call: FunctionCall) -> tuple[Tensor, Trail] | None:
    """Return the argument that is a sum of exponentials, if the result has its size."""
    for x in call.tensors():
        trail = tracker.trail(x)
        if trail is not None and trail.stage == "sum" and x.numel() == call.out.numel():
            return x, trail
    return None


def _divisor(tracker: Tracker, call: FunctionCall) -> tuple[Trail, Tensor] | None:
    """Return the sum of exponentials by which the function divides, or with whose reciprocal it multiplies."""
    for i in (1, 0):
        trail = tracker.trail_of_argument(call.args, i)
        if trail is not None and trail.stage == "sum":
            functions = MULTIPLICATIONS if trail.inverse else DIVISIONS
            return (trail, call.args[i]) if trail.axis is not None and call.func in functions else None
    return None


def _normalize(tracker: Tracker, trail: Trail, divisor: Tensor, out: Any) -> Weighing | None:
    """Divide exponentials that were multiplied with values before they were divided by their sum."""
    weighing = trail.product
    assert weighing is not None
    weights, layout = weighing.weights, weighing.layout
    if layout is not None and layout.output_order is not None and divisor.dim() == len(layout.output_order):
        divisor = divisor.permute(layout.output_order)  # (…, L, 1), like the weights
    if divisor.dim() == weights.dim() - 1:
        divisor = divisor.unsqueeze(-1)
    sizes = zip(reversed(divisor.shape), reversed(weights.shape), strict=False)
    if divisor.shape[-1] != 1 or divisor.dim() > weights.dim() or any(a not in (1, b) for a, b in sizes):
        _lose(tracker, weights, trail, "a division")
        return None
    weighing.softmax.products, weighing.softmax.lost_in = 1, ""
    output = out if weighing.output is not None and out.shape == weighing.output.shape else None
    return replace(weighing, weights=weights / divisor.detach(), output=output)
