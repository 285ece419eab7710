"""Scores of eager attention: where they begin, and how they are followed to a softmax."""

import math
import weakref
from dataclasses import replace

import torch.nn.functional as F
from torch import Tensor, nn

from regard.watching.readers.eager.axis_tracking import follow_axis
from regard.watching.readers.eager.function_call import FunctionCall, number
from regard.watching.readers.eager.function_sets import (
    ADDITIONS,
    CASTS,
    CONVOLUTIONS,
    DIVISIONS,
    EXP,
    EXP2,
    KEEP_FACTOR,
    LOG_SOFTMAX,
    LOG_SUM_EXP,
    MEANS,
    MULTIPLICATIONS,
    NO_SCORES,
    PAIR_FUNCTIONS,
    POWERS,
    RUNNING_SUMS,
    SOFTMAX,
    SUBTRACTIONS,
    SUMS,
    WRITES,
)
from regard.watching.readers.eager.products import PRODUCTS, WITH_ADDEND, Label, read_product
from regard.watching.readers.eager.tracker import Tracker
from regard.watching.readers.eager.trails import PLAIN, Scores, Trail

MAX_LEARNED = 16  # a projection to more numbers than this is a projection, not scores of learned queries


def _begin_linear(tracker: Tracker, call: FunctionCall) -> None:
    if call.weight().shape[0] <= MAX_LEARNED:
        _follow_learned(tracker, call.out, -1)


def _begin_convolution(tracker: Tracker, call: FunctionCall) -> None:
    out, axis = call.out, -1 if call.func is F.bilinear else 1 - call.out.dim()
    if out.shape[axis] <= MAX_LEARNED:
        _follow_learned(tracker, out, axis)


def _begin_cast(tracker: Tracker, call: FunctionCall) -> None:
    x = call.args[0]
    if call.out is not x and tracker.is_fixed(x) and not tracker.is_buffer(x):
        tracker.follow(call.out, Trail("constant"))


def _begin_softmax(tracker: Tracker, call: FunctionCall) -> None:
    tracker.suspect(f"the argument of its softmax of {tuple(call.out.shape)} is not a product of queries and keys")


def _begin_distances(tracker: Tracker, call: FunctionCall) -> None:
    """Start with scores that a function of queries and keys computes, such as their distances."""
    if not any(map(tracker.is_fixed, call.tensors())):
        tracker.follow(call.out, Trail("scores", scale=None))


def _begin_product(tracker: Tracker, call: FunctionCall) -> None:
    func, args, kwargs, out = call.func, call.args, call.kwargs, call.out
    if len(args) > 2 and type(args[2]) is nn.Parameter and func in WITH_ADDEND:  # a projection
        return
    product = read_product(func, args, kwargs)
    if product is None or len(product.operands) < 2 or not out.dtype.is_floating_point:
        return
    constants = [i for i, x in enumerate(product.operands) if tracker.is_fixed(x)]
    if not constants:
        factors = [trail.scale for x in product.operands if (trail := tracker.trail(x)) and trail.stage == "scaled"]
        scale = math.prod(x for x in factors if x is not None) if None not in factors else None
        scale = scale * kwargs.get("alpha", 1.0) if scale is not None else None
        tracker.follow(out, Trail("scores", scores=Scores(width=product.summed_size()), scale=scale))
    elif len(constants) == 1 < len(product.operands):
        i = constants[0]
        parameter = product.operands[i]
        if tracker.is_buffer(parameter):
            return
        others: set[Label] = {x for j, term in enumerate(product.labels) if j != i for x in term}
        own = [x for x in product.labels[i] if x not in others and x in product.result]
        if not own:
            tracker.follow(out, Trail("scores", scale=None))
        elif len(own) == 1:
            _follow_learned(tracker, out, product.result.index(own[0]) - len(product.result))


def _follow_learned(tracker: Tracker, out: Tensor, axis: int) -> None:
    """Follow scores of learned queries, whose axis is that of the parameter; one query has no axis of its own."""
    tracker.follow(out, Trail("scores", None if out.shape[axis] == 1 else axis, scores=Scores(True), scale=None))


def _begin_scaled(tracker: Tracker, call: FunctionCall) -> None:
    func, args, out = call.func, call.args, call.out
    a, b = args[0], args[1] if len(args) > 1 else call.kwargs.get("other")
    if isinstance(b, Tensor) and isinstance(a, Tensor) and (b.dim() or func not in DIVISIONS):
        if func in MULTIPLICATIONS and a is not b:  # perhaps queries × keys, before their sum
            if out.numel() == a.numel() or out.numel() == b.numel():
                tracker.multiplied = weakref.ref(out), weakref.ref(a), weakref.ref(b)
            elif not (tracker.is_fixed(a) or tracker.is_fixed(b)):
                tracker.follow(out, Trail("scores"))
        return
    factor = number(b)
    if factor and isinstance(a, Tensor) and a.dim() > 1:
        tracker.follow(out, Trail("scaled", scale=1 / factor if func in DIVISIONS else factor))


def _begin_sum(tracker: Tracker, call: FunctionCall) -> None:
    """Start with a product summed elementwise, (q * k).sum(-1), of two activations or of one with a parameter."""
    x, product = call.args[0] if call.args else None, tracker.multiplied
    if product is None or x is None or product[0]() is not x or call.reduced_axes(x) != [-1]:
        return
    fixed = [y for factor in product[1:] if (y := factor()) is not None and tracker.is_fixed(y)]
    if len(fixed) == 2 or any(map(tracker.is_buffer, fixed)):
        return
    width, learned = x.shape[-1], bool(fixed)
    scale = None if learned else 1 / width if call.func in MEANS else 1.0
    tracker.follow(call.out, Trail("scores", scores=Scores(learned, width=width), scale=scale))


def _begin_difference(tracker: Tracker, call: FunctionCall) -> None:
    """Start with all differences of queries and keys, before their norm."""
    a, b = call.args[0], call.argument(1, "other")
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or call.out.numel() <= max(a.numel(), b.numel()):
        return
    if not (tracker.is_fixed(a) or tracker.is_fixed(b)):
        tracker.follow(call.out, Trail("pairs"))


BEGINNINGS = {
    **dict.fromkeys(PRODUCTS, _begin_product),
    **dict.fromkeys((*MULTIPLICATIONS, *DIVISIONS), _begin_scaled),
    **dict.fromkeys(CASTS, _begin_cast),
    **dict.fromkeys(SOFTMAX, _begin_softmax),
    **dict.fromkeys((*CONVOLUTIONS, F.bilinear), _begin_convolution),
    **dict.fromkeys(PAIR_FUNCTIONS, _begin_distances),
    **dict.fromkeys((*SUMS, *MEANS), _begin_sum),
    **dict.fromkeys(SUBTRACTIONS, _begin_difference),
    F.linear: _begin_linear,
}
"""Functions whose result may be followed although none of their arguments is on the way to weights."""


def continue_factor(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> None:
    """Follow a scaled activation or a cast parameter through views, casts and linear functions of it."""
    func = call.func
    if func in MULTIPLICATIONS or func in DIVISIONS:
        if trail.stage == "constant" and not all(tracker.is_fixed(y) for y in _other_floats(call, x)):
            return
        if isinstance(call.out, Tensor) and call.out.numel() != x.numel():
            return  # x is a table for many activations: YaRN multiplies the cosines and sines of rotary positions
        factor = call.factor(x, 1.0)
        if trail.scale is not None and factor is not None:
            trail = Trail(trail.stage, scale=trail.scale * factor)
    elif func not in KEEP_FACTOR and not call.is_attribute:  # x.mT
        return
    else:
        for y in _other_floats(call, x):
            other = tracker.trail(y)
            if other is None or other.stage != trail.stage or other.scale != trail.scale:
                return
    for y in call.outputs():
        tracker.follow(y, trail)


def continue_pairs(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> None:
    """Follow differences of queries and keys through elementwise functions to their sum or norm: scores."""
    out = call.out
    if not isinstance(out, Tensor) or call.func in PRODUCTS:
        return
    if out.shape == x.shape:
        tracker.follow(out, trail)
    elif out.shape in (x.shape[:-1], (*x.shape[:-1], 1)):
        tracker.follow(out, Trail("scores", scale=None))


def _other_floats(call: FunctionCall, x: Tensor) -> list[Tensor]:
    return [y for y in call.tensors() if y is not x and y.dtype.is_floating_point]


def continue_scores(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> None:
    """Follow scores through a function, up to a softmax."""
    func, args, out = call.func, call.args, call.out
    if trail.axis is not None and trail.scores.learned and _begin_anew(tracker, call, x, trail.axis):
        return
    if trail.scale == 1.0 and func in ADDITIONS and trail.scores is not PLAIN:
        trail.scores.biased |= any(bool(((y != 0) & (y > -100)).any()) for y in _other_floats(call, x))
    if func in SOFTMAX or func in LOG_SOFTMAX:
        over = call.softmax_axis(x)
        if over == trail.axis:
            trail.scores.over_parameter = True
        elif func in SOFTMAX:
            tracker.start_weights(out, over, trail)
        else:
            tracker.follow(out, replace(trail, stage="log weights", axis=over))
    elif func in EXP or (func in POWERS and tracker.trail(call.power()[1]) is not None):
        base = 2.0 if func in EXP2 else number(call.power()[0]) if func in POWERS else math.e
        scale = trail.scale * math.log(base) if base and base > 0 and trail.scale is not None else None
        tracker.follow(out, replace(trail, stage="exponentials", scale=scale))
    elif func in LOG_SUM_EXP:
        axes = call.reduced_axes(x)
        tracker.follow(out, replace(trail, stage="sum", axis=axes[0] if len(axes) == 1 else None))
    elif func in SUBTRACTIONS and (other := tracker.trail_of_argument(args, 1)) is not None and other.stage == "sum":
        if other.axis is not None and other.axis != trail.axis:
            tracker.follow(out, replace(trail, stage="log weights", axis=other.axis))
    elif func in PRODUCTS or func in CONVOLUTIONS:
        _multiply_scores(tracker, call, x, trail)
    elif func in WRITES:
        tracker.follow(args[0] if out is None else out, trail)
    elif func not in NO_SCORES and not (trail.scores.learned and func in RUNNING_SUMS):
        scale = call.factor(x, trail.scale)
        if trail.axis is None:
            trail = trail if scale == trail.scale else replace(trail, scale=scale)
            for y in call.outputs():
                tracker.follow(y, trail)
        else:
            for y, axis in follow_axis(func, args, call.kwargs, x, trail.axis, out):
                if axis is not None:
                    tracker.follow(y, replace(trail, axis=axis, scale=scale))


def _begin_anew(tracker: Tracker, call: FunctionCall, x: Tensor, axis: int) -> bool:
    """Take what seemed to be scores of learned queries as features, if scores begin with the function."""
    func, args, out = call.func, call.args, call.out
    if func is F.linear or func in CONVOLUTIONS:
        anew = axis == (-1 if func is F.linear else 1 - x.dim())
    elif func in SUMS or func in MEANS:
        anew = True
    else:
        pair = func in MULTIPLICATIONS or func in SUBTRACTIONS
        anew = pair and all(isinstance(y, Tensor) and y.numel() > 1 for y in args[:2])
    if not anew or not isinstance(out, Tensor) or out is x:
        return False
    BEGINNINGS[func](tracker, call)
    return tracker.trail(out) is not None or func is F.linear or func in CONVOLUTIONS


def _multiply_scores(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> None:
    """Read a product of scores: with a parameter it mixes heads, with an activation it makes new scores."""
    if call.func is F.linear or call.func in CONVOLUTIONS:
        weight = call.weight()
        if (x.dim() >= 4 and weight.shape[0] == weight.shape[1]) or weight.shape[0] == 1:
            tracker.follow(call.out, replace(trail, scale=None))
        return
    others = [y for y in call.tensors() if y is not x]
    if trail.axis is None and not trail.scores.learned:
        if len(others) == 1 and tracker.is_fixed(others[0]):
            sizes = others[0].shape
            if len(sizes) == 2 and (sizes[0] == sizes[1] or 1 in sizes):
                tracker.follow(call.out, replace(trail, scale=None))
            return
        tracker.suspect("it multiplies values with scores that did not pass a softmax")
        note_normalized(tracker, call, x)
    _begin_product(tracker, call)


def note_normalized(tracker: Tracker, call: FunctionCall, x: Tensor) -> None:
    """Note a product with values of numbers that may sum to 1, although they passed no softmax."""
    product = read_product(call.func, call.args, call.kwargs)
    for i, operand in enumerate(product.operands) if product is not None and len(product.operands) > 1 else ():
        if operand is x and product is not None and len(axes := product.summed_axes(i)) == 1:
            tracker.note_possible_weights(x, axes[0])
