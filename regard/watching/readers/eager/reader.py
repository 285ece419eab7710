"""The reader of eager attention: processes each torch function that runs."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.watching.readers.eager import elementwise_products
from regard.watching.readers.eager.exponentials import (
    continue_exponentials,
    continue_sum,
    continue_unnormalized_output,
    continue_weighted_exponentials,
)
from regard.watching.readers.eager.function_call import SEQUENCES, FunctionCall
from regard.watching.readers.eager.function_sets import EXP, LOG_SOFTMAX, NO_SCORES, SOFTMAX, SUMS
from regard.watching.readers.eager.outputs import continue_output
from regard.watching.readers.eager.products import PRODUCTS, read_product
from regard.watching.readers.eager.scores import BEGINNINGS, continue_factor, continue_pairs, continue_scores
from regard.watching.readers.eager.tracker import Tracker
from regard.watching.readers.eager.trails import Trail, Weighing
from regard.watching.readers.eager.value_products import multiply
from regard.watching.readers.eager.weights import continue_weights, pass_on

PRIORITY = {"unnormalized output": 1, "scores": -1, "sum": -2, "output": -3, "scaled": -4, "constant": -5, "pairs": -6}

# Scores may begin with a function of these; the output of a call may be the queries of the next.
BEFORE_SCORES = {
    "scaled": continue_factor, "constant": continue_factor, "pairs": continue_pairs, "output": continue_output,
}  # fmt: skip


def read(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Weighing | None:
    """Process one torch function; return the weights when they have been multiplied with values.

    A function needs to be processed if a tensor is followed, or if it is in `BEGINNINGS`.
    """
    trails, call = tracker.trails, None
    if trails:
        followed = []
        if kwargs and "out" in kwargs:  # it is overwritten: what was known about it does not hold any more
            kwargs = _without_target(tracker, args, kwargs)
        for x in (*args, *kwargs.values()) if kwargs else args:
            if (entry := trails.get(id(x))) is not None:
                if entry[0]() is x:
                    followed.append((x, entry[1]))
            elif type(x) in SEQUENCES:
                followed += [(y, trail) for y in x if isinstance(y, Tensor) and (trail := tracker.trail(y)) is not None]
        if followed:  # take the tensor that is farthest on the way
            x, trail = followed[0] if len(followed) == 1 else max(followed, key=_progress)
            call = FunctionCall(func, args, kwargs, out)
            if trail.stage not in BEFORE_SCORES:
                return _continue(tracker, call, x, trail, followed)
            BEFORE_SCORES[trail.stage](tracker, call, x, trail)
            if (
                trail.stage == "output"
                and tracker.trail(out) is not None
                and not _multiplies_activations(tracker, call)
            ):
                return None
    begin = BEGINNINGS.get(func)
    if begin is not None and isinstance(out, Tensor):
        begin(tracker, call or FunctionCall(func, args, kwargs, out))
    return None


def _multiplies_activations(tracker: Tracker, call: FunctionCall) -> bool:
    return call.func in PRODUCTS and not any(map(tracker.is_fixed, call.tensors()))


def _without_target(tracker: Tracker, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name without `out`, into which the result was written; forget its trail."""
    target = kwargs["out"]
    for x in target if isinstance(target, SEQUENCES) else (target,):
        if all(x is not y for y in args):
            tracker.trails.pop(id(x), None)
    return {name: x for name, x in kwargs.items() if name != "out"}


def _progress(pair: tuple[Tensor, Trail]) -> int:
    return PRIORITY.get(pair[1].stage, 0)


def _continue(
    tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail, followed: list[tuple[Tensor, Trail]]
) -> Weighing | None:
    """Follow a tensor through a function."""
    func = call.func
    if trail.stage == "scores":
        continue_scores(tracker, call, x, trail)
    elif trail.stage == "log weights" and (func in SOFTMAX or func in LOG_SOFTMAX):
        continue_scores(tracker, call, x, replace(trail, axis=None))
    elif func in NO_SCORES and not (trail.stage == "weights" and call.normalizes_other_axes(trail.axis)):
        return None
    elif trail.stage == "sum":
        continue_sum(tracker, call, x, trail)
    elif trail.stage == "log weights" and func in EXP:
        tracker.start_weights(call.out, trail.axis, trail)
    elif trail.stage == "exponentials":
        return continue_exponentials(tracker, call, x, trail)
    elif trail.stage == "weighted exponentials":
        return continue_weighted_exponentials(tracker, call, x, trail)
    elif trail.stage == "unnormalized output":
        return continue_unnormalized_output(tracker, call, x, trail)
    elif trail.stage == "weighted values" and func in SUMS and trail.product is not None:
        return elementwise_products.finish(tracker, trail) if call.reduced_axes(x) == [trail.axis] else None
    elif func in PRODUCTS and (product := read_product(func, call.args, call.kwargs)) is not None:
        return multiply(tracker, product, call.out)
    elif trail.stage == "weights":
        continue_weights(tracker, call, x, trail, followed)
    else:
        pass_on(tracker, call, x, trail)
    return None
