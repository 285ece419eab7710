"""Products of weights: with values they are attention, with a matrix of heads × heads they mix heads."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.watching.readers.eager.arranged_weights import arrange
from regard.watching.readers.eager.products import Product
from regard.watching.readers.eager.tracker import Tracker
from regard.watching.readers.eager.trails import Fold, Trail, Weighing

WEIGHING = ("weights", "exponentials")


def multiply(tracker: Tracker, product: Product, out: Any) -> Weighing | None:
    """Read a product with at least one followed operand; return the weights if it is with values."""
    trails = [tracker.trail(x) for x in product.operands]
    followed = [i for i, trail in enumerate(trails) if trail is not None and trail.stage in WEIGHING]
    if len(followed) > 1:
        tracker.composed[tracker.module()] = (
            "it multiplies the results of several softmaxes, an approximation of attention"
        )
        return None
    if not followed:
        return None
    i = followed[0]
    trail, labels = trails[i], product.labels[i]
    assert trail is not None
    others = [j for j in range(len(product.operands)) if j != i]
    if trail.stage == "exponentials":  # perhaps the sum over the keys comes later: take the axis that is summed here
        summed = product.summed_axes(i)
        if len(summed) != 1 or summed[0] == trail.axis:
            return None
        if tracker.is_normalized(product.operands[i], summed[0]):
            tracker.start_weights(product.operands[i], summed[0], trail)
            trail = tracker.trail(product.operands[i])
            assert trail is not None
        else:
            trail = replace(trail, axis=summed[0])
    assert trail.axis is not None
    key = labels[trail.axis]
    with_key = [j for j in others if key in product.labels[j]]
    if key in product.result or not with_key:
        if trail.softmax is not None and _sums_over_another_axis(tracker, product, i, others, trail):
            trail.softmax.wrong_axis = True
            return None
        if key in product.result and trail.stage == "weights" and _mixes(tracker, product, i, others):
            axis = product.result.index(key) - len(product.result)
            tracker.follow(out, replace(trail, axis=axis, value=None))
        return None
    values = next((j for j in with_key if not tracker.is_fixed(product.operands[j])), None)
    if values is None or not isinstance(out, Tensor):
        return None
    weighing = arrange(tracker, product, i, values, trail, out)
    if weighing is None:
        return None
    if trail.stage == "exponentials":
        follow_unnormalized(tracker, out, weighing, trail)
        return None
    result = list(product.result)
    query = next((x for x in reversed(labels) if x in result and x not in product.labels[values]), None)
    folded = next((x for x in labels if x != key and (x != "row" or len(labels) < 3)), None)
    if trail.scores.learned and query is not None:
        tracker.follow(out, Trail("output", result.index(query) - len(result), softmax=trail.softmax))
    elif weighing.fold is not None and folded is not None and folded in result:
        follow_output(tracker, out, result.index(folded) - len(result), weighing.fold)
    return weighing


def follow_unnormalized(tracker: Tracker, out: Any, weighing: Weighing, trail: Trail) -> None:
    """Follow a product of exponentials with values to the division by their sum; reported if there is none."""
    softmax = weighing.softmax
    softmax.products, softmax.lost_in = 0, "a product with values that is not divided by their sum"
    tracker.softmaxes.append(softmax)
    tracker.follow(out, Trail("unnormalized output", product=weighing, scores=trail.scores))


def follow_output(tracker: Tracker, out: Any, axis: int, fold: Fold) -> None:
    """Follow the output of a call to where the axis that holds batch and heads is split."""
    tracker.follow(out, Trail("output", axis, fold=fold))


def _sums_over_another_axis(tracker: Tracker, product: Product, i: int, others: list[int], trail: Trail) -> bool:
    """Whether weights are multiplied with values over their last axis, which neither softmax nor sum normalized."""
    weights, labels = product.operands[i], product.labels[i]
    if trail.stage != "weights" or trail.axis == -1 or trail.scores.learned or weights.dim() < 3:
        return False
    if labels[-1] in product.result or (weights.dim() < 4 and weights.shape[-1] != weights.shape[-2]):
        return False
    values = [j for j in others if labels[-1] in product.labels[j] and not tracker.is_fixed(product.operands[j])]
    return bool(values) and bool(((weights.detach().sum(-1) - 1).abs() > 1e-2).any())


def _mixes(tracker: Tracker, product: Product, i: int, others: list[int]) -> bool:
    """Whether a product that keeps the axis of the keys mixes heads: it replaces one axis by one of its size."""
    if all(tracker.is_fixed(product.operands[j]) for j in others):
        return True
    kept = [x for x in product.labels[i] if x in product.result]
    new = [x for x in product.result if x not in product.labels[i]]
    return len(product.result) == len(product.labels[i]) == len(kept) + 1 == len(kept) + len(new)
