"""Weights × values elementwise, followed by a sum over the keys: `(w[..., None] * v).sum(-2)`."""

from typing import Any

from torch import Tensor

from regard.watching.readers.eager.arranged_weights import count, has_own_keys, last_axis
from regard.watching.readers.eager.tracker import Tracker
from regard.watching.readers.eager.trails import Softmax, Trail, Weighing


def weighs(args: tuple[Any, ...], x: Tensor, out: Tensor) -> bool:
    """Whether an elementwise product of weights is with values: axes of the values are added to the weights."""
    if out.shape != x.shape:
        return True
    expanded = any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape, strict=True))
    return expanded and all(not isinstance(y, Tensor) or y is x or y.shape == x.shape for y in args)


def values(args: tuple[Any, ...], x: Tensor, out: Any) -> Tensor | None:
    """Return the values that exponentials are multiplied with, whose features are the last axis; None for a mask."""
    repeated = x.dim() > 1 and (x.shape[-1] == 1 or x.stride(-1) == 0)
    if not repeated or not isinstance(out, Tensor) or out.shape[-1] == 1:
        return None
    return next((y for y in args if isinstance(y, Tensor) and y is not x), None)


def weigh(tracker: Tracker, args: tuple[Any, ...], x: Tensor, trail: Trail, out: Tensor) -> None:
    """Follow weights × values to the sum over the keys."""
    values = next((y for y in args if isinstance(y, Tensor) and y is not x), None)
    if values is None or trail.axis is None or tracker.is_fixed(values):
        return
    weighing = arrange(tracker, x if trail.value is None else trail.value, values, trail, out)
    if weighing is not None:
        tracker.follow(out, Trail("weighted values", trail.axis, product=weighing, softmax=trail.softmax))


def arrange(tracker: Tracker, weights: Tensor, values: Tensor, trail: Trail, out: Tensor) -> Weighing | None:
    """Arrange weights as (…, L, S): their axes of size 1 are those of the values' features."""
    assert trail.axis is not None
    n = out.dim()
    weights = weights[(None,) * (n - weights.dim())]
    once = [size == 1 or stride == 0 for size, stride in zip(weights.shape, weights.stride(), strict=True)]
    axis = trail.axis % n
    if weights.shape[axis] != out.shape[axis]:
        return None  # one key at a time
    features = [i for i in range(n) if once[i] and out.shape[i] > 1 and i != axis]
    shown = [i >= n - values.dim() and values.shape[i - n] > 1 for i in range(n)]
    kept = [i for i in range(n) if i != axis and i not in features]
    queries = [i for i in kept if not shown[i] and weights.shape[i] > 1][-1:]
    leading = [i for i in kept if i not in queries]
    if not queries and has_own_keys(tracker, trail, [weights.shape[i] for i in leading if weights.shape[i] > 1]):
        return None
    weights = weights.permute(*leading, *queries, axis, *features)
    for _ in features:
        weights = weights[..., 0]
    placed = values[(None,) * (n - values.dim())].permute(*leading, *queries, axis, *features)
    placed = last_axis(placed.squeeze(len(leading)) if queries else placed, len(features))
    return Weighing(weights if queries else weights[..., None, :], Softmax(None, ()), placed)


def finish(tracker: Tracker, trail: Trail) -> Weighing | None:
    """Return the weights when their product with values has been summed over the keys."""
    assert trail.product is not None
    return count_product(tracker, trail.product, trail)


def count_product(tracker: Tracker, weighing: Weighing, trail: Trail) -> Weighing | None:
    """Count an arranged product of weights with values."""
    assert weighing.values is not None
    return count(tracker, weighing.weights, weighing.values, None, trail, dropout=False)
