"""A softmax written by hand: exp(scores), its sum, and the division, before or after the product with values."""

from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from regard.watching.readers.eager.axis_tracking import RESHAPES
from regard.watching.readers.eager.function_call import FunctionCall
from regard.watching.readers.eager.function_sets import (
    ADDITIONS,
    CASTS,
    DIVISIONS,
    MULTIPLICATIONS,
    NO_SCORES,
    RECIPROCALS,
    SCATTERED_SUMS,
    SUMS,
)
from regard.watching.readers.eager.products import PRODUCTS, read_product
from regard.watching.readers.eager.tracker import Tracker
from regard.watching.readers.eager.trails import Trail, Weighing
from regard.watching.readers.eager.value_products import multiply


def continue_sum(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> None:
    """Follow the sum of exponentials to the division by it."""
    inverse = trail.inverse != (call.func in RECIPROCALS)
    if isinstance(call.out, Tensor) and call.out.numel() == x.numel():  # a constant is added, or a minimum applied
        tracker.follow(call.out, replace(trail, inverse=inverse))


def continue_exponentials(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> Weighing | None:
    """Follow exp(scores) to the division by its sum, or to the product with values."""
    func, out, divisor = call.func, call.out, _divisor(tracker, call)
    if divisor is not None:
        tracker.start_weights(out, divisor[0].axis, trail)
    elif func is F.normalize and call.normalizes_sum():
        tracker.start_weights(out, call.normalized_axis(x), trail)
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
        elif product is not None:
            return multiply(tracker, product, out)
    elif func not in NO_SCORES:
        for y in call.outputs():
            tracker.follow(y, trail)
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
        tracker.lose(x, trail, f"{call.name}: parts that are added, or divided later")
    return None


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
    weights = weighing.weights
    if divisor.dim() == weights.dim() - 1:
        divisor = divisor.unsqueeze(-1)
    if divisor.shape[-1] != 1:
        tracker.lose(weights, trail, "a division")
        return None
    output = out if weighing.output is not None and out.shape == weighing.output.shape else None
    return replace(weighing, weights=weights / divisor.detach(), output=output)
