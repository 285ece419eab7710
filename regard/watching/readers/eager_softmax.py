"""Reader of eager attention: follows a softmax of scores to the product of its result with values.

Attention written with torch functions is: scores, a product of two activations; a softmax of them; a product that sums
the result over the axis of the softmax. What happens in between is followed tensor by tensor: views, slices, casts,
dropout, masks, scaling and mixing of heads. The operand of the last product holds the weights, so whatever the model
did to them is included. Dropout is not: the weights before it are recorded.

A softmax of something else is not attention: the scores of experts, a vocabulary or a kernel function are the product
of an activation with a parameter. There the softmax must be over the axis of the activation, not over that of the
parameter: this is pooling with learned queries.

| tensor | from |
|---|---|
| scaled | an activation times a number: queries may be scaled before the product with keys |
| constant | a cast or normalized parameter |
| scores | a product of two activations, or of an activation and a parameter |
| exponentials, their sum | exp(scores) and its sum: a softmax written by hand |
| log weights | log_softmax(scores), or scores − logsumexp(scores) |
| weights | a softmax of scores over the axis of the keys |
| weighted values | weights × values elementwise, before the sum over the keys |
| output | the product with values, followed to where batch and heads are separated, if they share an axis |
"""

import math
import weakref
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.watching.readers.axis_tracking import RESHAPES, follow_axis, split_by_reshape
from regard.watching.readers.function_sets import (
    ADDITIONS,
    CASTS,
    CHUNKS,
    CONVOLUTIONS,
    DIVISIONS,
    DROPOUT,
    EXP,
    EXP2,
    KEEP_FACTOR,
    KEEP_SCALE,
    LOG_SOFTMAX,
    LOG_SUM_EXP,
    MULTIPLICATIONS,
    NO_SCORES,
    RECIPROCALS,
    SCATTERED_SUMS,
    SOFTMAX,
    STARTS,
    SUBTRACTIONS,
    SUMS,
    WRITES,
)
from regard.watching.readers.products import PRODUCTS, WITH_ADDEND, Label, Product, read_product
from regard.watching.readers.wrapped_tensors import unwrap

Stage = Literal[
    "scaled", "constant", "scores", "exponentials", "sum", "log weights", "weights", "weighted values",
    "unnormalized output", "output",
]  # fmt: skip

WRONG_AXIS = "its softmax was not multiplied with values over the axis that it normalizes"
MAX_LEARNED = 16  # a projection to more numbers than this is a projection, not scores of learned queries


@dataclass(eq=False)
class Scores:
    """What is known about scores, shared by everything computed from them."""

    learned: bool = False  # whether they are the product with a parameter
    over_parameter: bool = False  # whether a softmax was taken over the axis of the parameter: not attention
    width: int | None = None  # number of features over which queries and keys were multiplied
    biased: bool = False  # whether numbers were added that do not only hide keys; examined for unscaled scores only


PLAIN = Scores()  # of two activations; shared, since nothing about them changes


@dataclass
class Softmax:
    """One softmax of scores that ran, and the products with values that followed it."""

    module: Any
    shape: tuple[int, ...]
    size: int = 0  # number of keys
    scores: Scores = PLAIN
    scale: float | None = None
    products: int = 0
    partial_products: int = 0  # products that sum over a part of the softmax axis only
    lost_in: str = ""  # the function in which its axis could not be followed
    own_keys: bool = False  # whether every query has keys of its own
    merged: bool = False  # whether the result became part of the weights of another softmax
    queries_summed: bool = False  # whether the model sums over the queries next: linear attention
    wrong_axis: bool = False  # whether the product with values sums over an axis that the softmax does not normalize

    @property
    def is_attention(self) -> bool:
        """Whether the softmax is over keys; for learned queries this is known only when the model has run."""
        return not (self.scores.over_parameter or self.queries_summed)


@dataclass(slots=True)
class Trail:
    """What is known about a tensor on the way from scores to the product with values."""

    stage: Stage
    axis: int | None = None  # the axis of the keys, counted from the end; for scores that of the parameter
    value: Tensor | None = None  # what the tensor would be without dropout; None: itself, which must not be held
    softmax: Softmax | None = None
    scores: Scores = PLAIN
    scale: float | None = 1.0  # the factor by which a scaled activation or scores were multiplied
    inverse: bool = False  # for "sum": whether it is the reciprocal
    product: "Weighing | None" = None  # for "unnormalized output" and "weighted values"
    fold: "Fold | None" = None  # for "output"


@dataclass
class Fold:
    """An axis that may hold batch and heads together, and the two sizes into which the model splits it later."""

    size: int
    split: tuple[int, int] | None = None


@dataclass
class Weighing:
    """Weights (…, L, S) of a product with values; None for what the functions of the model do not show."""

    weights: Tensor
    softmax: Softmax
    values: Tensor | None = None  # (…, S, d_v), broadcasts with the weights
    output: Tensor | None = None  # (…, L, d_v): the product; with dropout it is not weights @ values
    scale: float | None = None  # the factor of the scores between the product of queries and keys and the softmax
    fold: Fold | None = None  # where the weights have one axis besides queries and keys
    dropout: bool = False  # whether the output was computed with dropout


@dataclass
class EagerReader:
    """Follows softmax results until they are multiplied with values.

    is_constant     whether a tensor shares the memory of a parameter or buffer
    is_buffer       whether it shares that of a buffer
    module          returns what identifies the module that runs now
    heads           returns the number of heads that a module states, or None
    lengths         returns the first two sizes of the input of the module that runs now
    attends         whether a module is an attention layer by the name of its class
    """

    is_constant: Callable[[Tensor], bool]
    is_buffer: Callable[[Tensor], bool]
    module: Callable[[], Any]
    heads: Callable[[Any], int | None] = lambda module: None
    lengths: Callable[[], tuple[int, ...]] = lambda: ()
    attends: Callable[[Any], bool] = lambda module: False
    softmaxes: list[Softmax] = field(default_factory=list)
    composed: set[Any] = field(default_factory=set)  # modules that multiply the results of several softmaxes
    suspects: dict[Any, str] = field(default_factory=dict)  # attention modules and what they did instead of a softmax
    trails: dict[int, tuple[Any, Trail]] = field(default_factory=dict)

    def read(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Weighing | None:
        """Process one torch function; return the weights when they have been multiplied with values."""
        if self.trails and self._follows_any(args, kwargs):
            followed = [(x, trail) for x in _tensors(args, kwargs) if (trail := self._trail(x)) is not None]
            if followed:  # take the tensor that is farthest on the way
                x, trail = max(followed, key=lambda pair: PRIORITY.get(pair[1].stage, 0))
                if trail.stage not in BEFORE_SCORES:
                    return self._continue(func, args, kwargs, x, trail, out, followed)
                self._continue_factor(func, args, kwargs, x, trail, out)
        if func in STARTS and isinstance(out, Tensor):
            self._begin(func, args, kwargs, out)
        return None

    def _follows_any(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether an argument may be followed; fast, since it runs for every function."""
        trails = self.trails
        for x in args:
            if id(x) in trails or (type(x) in SEQUENCES and x and isinstance(x[0], Tensor)):
                return True
        return any(id(x) in trails or type(x) in SEQUENCES for x in kwargs.values())

    def unseen(self, recorded: set[Any]) -> dict[Any, str]:
        """Return the modules that attend but whose weights were not recorded, with the reason."""
        reasons: dict[Any, str] = {}
        for softmax in self.softmaxes:
            if softmax.module is None or softmax.merged or not softmax.is_attention:
                continue
            if softmax.module in self.composed:
                reasons[softmax.module] = (
                    "it multiplies the results of several softmaxes, an approximation of attention"
                )
            elif softmax.partial_products > 1:
                reasons[softmax.module] = "it attends in pieces (block-sparse), so that keys have no positions"
            elif softmax.own_keys:
                reasons.setdefault(softmax.module, "each query has keys of its own, so that keys have no positions")
            elif softmax.products == 0 and softmax.wrong_axis:
                reasons[softmax.module] = WRONG_AXIS
            elif softmax.products == 0:
                after = f"; its result was lost in {softmax.lost_in}" if softmax.lost_in else ""
                reason = f"a softmax of {softmax.shape} was not multiplied with values{after}"
                reasons.setdefault(softmax.module, reason)
        return reasons | {name: text for name, text in self.suspects.items() if name not in recorded | reasons.keys()}

    def withdrawn(self) -> set[Any]:
        """Return the modules whose calls are parts of something else and must not be shown."""
        return self.composed | {softmax.module for softmax in self.softmaxes if softmax.partial_products > 1}

    def _trail(self, x: Any) -> Trail | None:
        reference, trail = self.trails.get(id(x), (None, None))
        return trail if reference is not None and reference() is x else None

    def _follow(self, x: Any, trail: Trail) -> None:
        if isinstance(x, Tensor) and x.dtype.is_floating_point:
            key = id(x)
            self.trails[key] = weakref.ref(x, lambda _: self.trails.pop(key, None)), trail

    # Before the scores

    def _begin(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        """Start to follow the result of a function none of whose arguments is on the way to weights."""
        if func is F.linear:
            weight = kwargs["weight"] if "weight" in kwargs else args[1]
            if weight.shape[0] <= MAX_LEARNED:
                self._follow_learned(out, -1)
        elif func in MULTIPLICATIONS or func in DIVISIONS:
            self._begin_scaled(func, args, kwargs, out)
        elif func in CASTS:
            if out is not args[0] and self._constant(args[0]) and not self.is_buffer(args[0]):
                self._follow(out, Trail("constant"))
        elif func in SOFTMAX:
            self._suspect(f"the argument of its softmax of {tuple(out.shape)} is not a product of queries and keys")
        elif func in CONVOLUTIONS or func is F.bilinear:
            if out.shape[axis := -1 if func is F.bilinear else 1 - out.dim()] <= MAX_LEARNED:
                self._follow_learned(out, axis)
        elif func is torch.cdist:
            if not any(map(self._constant, _tensors(args, kwargs))):
                self._follow(out, Trail("scores", scale=None))
        else:
            self._begin_product(func, args, kwargs, out)

    def _begin_product(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        if len(args) > 2 and type(args[2]) is nn.Parameter and func in WITH_ADDEND:  # a projection
            return
        product = read_product(func, args, kwargs)
        if product is None or len(product.operands) < 2 or not out.dtype.is_floating_point:
            return
        constants = [i for i, x in enumerate(product.operands) if self._constant(x)]
        if not constants:
            factors = [trail.scale for x in product.operands if (trail := self._trail(x)) and trail.stage == "scaled"]
            scale = math.prod(x for x in factors if x is not None) if None not in factors else None
            scale = scale * kwargs.get("alpha", 1.0) if scale is not None else None
            self._follow(out, Trail("scores", scores=Scores(width=product.summed_size()), scale=scale))
        elif len(constants) == 1 < len(product.operands):
            i = constants[0]
            parameter = product.operands[i]
            if self.is_buffer(parameter):
                return
            others: set[Label] = {x for j, term in enumerate(product.labels) if j != i for x in term}
            own = [x for x in product.labels[i] if x not in others and x in product.result]
            if not own:
                self._follow(out, Trail("scores", scale=None))
            elif len(own) == 1:
                self._follow_learned(out, product.result.index(own[0]) - len(product.result))

    def _follow_learned(self, out: Tensor, axis: int) -> None:
        """Follow scores of learned queries, whose axis is that of the parameter; one query has no axis of its own."""
        self._follow(out, Trail("scores", None if out.shape[axis] == 1 else axis, scores=Scores(True), scale=None))

    def _begin_scaled(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        a, b = args[0], args[1] if len(args) > 1 else kwargs.get("other")
        if isinstance(b, Tensor) and isinstance(a, Tensor) and (b.dim() or func not in DIVISIONS):
            larger = func in MULTIPLICATIONS and out.numel() > max(a.numel(), b.numel())
            if larger and not (self._constant(a) or self._constant(b)):  # queries × keys, before their sum
                self._follow(out, Trail("scores"))
            return
        factor = _number(b)
        if factor and isinstance(a, Tensor) and a.dim() > 1:
            self._follow(out, Trail("scaled", scale=1 / factor if func in DIVISIONS else factor))

    def _continue_factor(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, trail: Trail, out: Any
    ) -> None:
        """Follow a scaled activation or a cast parameter through views, casts and linear functions of it."""
        kept = func in KEEP_FACTOR or _name(func) == "__get__"  # x.mT
        if not kept and func not in MULTIPLICATIONS and func not in DIVISIONS:
            return
        others = [y for y in _tensors(args, kwargs) if y is not x and y.dtype.is_floating_point]
        if kept:
            trails = [self._trail(y) for y in others]
            if any(y is None or y.stage != trail.stage or y.scale != trail.scale for y in trails):
                return
        elif trail.stage == "constant" and not all(map(self._constant, others)):
            return
        factor = None if kept else _factor(func, args, kwargs, x, 1.0)
        if trail.scale is not None and factor is not None:
            trail = replace(trail, scale=trail.scale * factor)
        for y in out if isinstance(out, tuple | list) else [out]:
            self._follow(y, trail)

    def _constant(self, x: Any) -> bool:
        if not isinstance(x, Tensor):
            return False
        trail = self._trail(x)
        return trail.stage == "constant" if trail is not None else self.is_constant(x)

    def _suspect(self, what: str) -> None:
        """Note what an attention module did that is not followed; reported if it makes no call."""
        module = self.module()
        if module is not None and self.attends(module):
            self.suspects[module] = what

    # From the scores to the weights

    def _continue(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, trail: Trail, out: Any,
        followed: list[tuple[Tensor, Trail]],
    ) -> Weighing | None:  # fmt: skip
        """Follow a tensor through a function."""
        if trail.stage == "scores":
            self._continue_scores(func, args, kwargs, x, trail, out)
            return None
        if func in NO_SCORES:
            return None
        if trail.stage == "output":
            self._continue_output(func, args, kwargs, x, trail, out)
            return None
        if trail.stage == "sum":
            inverse = trail.inverse != (func in RECIPROCALS)
            if isinstance(out, Tensor) and out.numel() == x.numel():  # a constant is added, or a minimum applied
                self._follow(out, replace(trail, inverse=inverse))
            return None
        if trail.stage == "log weights" and func in EXP:
            self._start(out, trail.axis, trail)
            return None
        if trail.stage in ("exponentials", "unnormalized output"):
            return self._continue_exponentials(func, args, kwargs, x, trail, out)
        if trail.stage == "weighted values" and func in SUMS and trail.product is not None:
            if _dims(args, kwargs, x) == [trail.axis]:
                return self._finish_elementwise(trail, out)
            return None
        if func in PRODUCTS and (product := read_product(func, args, kwargs)) is not None:
            return self._multiply(product, out)
        if trail.stage == "weights":
            if func in SUMS and (axis := _divisor_axis(args, kwargs, x, trail)) is not None:
                self._follow(out, Trail("sum", axis, softmax=trail.softmax))
                return None
            if func in DIVISIONS and (divisor := self._trail_of(args, 1)) is not None and divisor.stage == "sum":
                trail = replace(trail, axis=divisor.axis)  # normalized again, perhaps over another axis
                if trail.softmax is not None and divisor.axis is not None:
                    trail.softmax.size = x.shape[divisor.axis]
            if func is F.normalize and kwargs.get("p", args[1] if len(args) > 1 else 2) == 1:
                trail = replace(trail, axis=_normalized_axis(args, kwargs, x))
            if func in MULTIPLICATIONS and isinstance(out, Tensor) and self._weighs(args, x, out):
                self._weigh_elementwise(args, x, trail, out)
                return None
            for _, other in followed:  # of two softmaxes that are added or stacked one is followed on
                if other.softmax is not None and other.softmax is not trail.softmax and other.stage == "weights":
                    other.softmax.merged = True
        self._pass_on(func, args, kwargs, x, trail, out)
        return None

    def _continue_scores(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, trail: Trail, out: Any
    ) -> None:
        if trail.scale == 1.0 and func in ADDITIONS and trail.scores is not PLAIN:
            others = [y for y in _tensors(args, kwargs) if y is not x and y.dtype.is_floating_point]
            trail.scores.biased |= any(bool(((y != 0) & (y > -100)).any()) for y in others)
        if func in SOFTMAX or func in LOG_SOFTMAX:
            over = _softmax_axis(args, kwargs, x)
            if over == trail.axis:
                trail.scores.over_parameter = True
            elif func in SOFTMAX:
                self._start(out, over, trail)
            else:
                self._follow(out, replace(trail, stage="log weights", axis=over))
        elif func in EXP and trail.axis is None:
            scale = trail.scale * math.log(2) if func in EXP2 and trail.scale is not None else trail.scale
            self._follow(out, replace(trail, stage="exponentials", scale=scale))
        elif func in LOG_SUM_EXP:
            axes = _dims(args, kwargs, x)
            self._follow(out, replace(trail, stage="sum", axis=axes[0] if len(axes) == 1 else None))
        elif func in SUBTRACTIONS and (other := self._trail_of(args, 1)) is not None and other.stage == "sum":
            if other.axis is not None and other.axis != trail.axis:
                self._follow(out, replace(trail, stage="log weights", axis=other.axis))
        elif func in PRODUCTS or func in CONVOLUTIONS:
            self._multiply_scores(func, args, kwargs, x, trail, out)
        elif func in WRITES:
            self._follow(args[0] if out is None else out, trail)
        elif func not in NO_SCORES:
            scale = _factor(func, args, kwargs, x, trail.scale)
            if trail.axis is None:
                trail = trail if scale == trail.scale else replace(trail, scale=scale)
                for y in [out] if isinstance(out, Tensor) else out if isinstance(out, tuple | list) else []:
                    self._follow(y, trail)
            else:
                for y, axis in follow_axis(func, args, kwargs, x, trail.axis, out):
                    if axis is not None:
                        self._follow(y, replace(trail, axis=axis, scale=scale))

    def _multiply_scores(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, trail: Trail, out: Any
    ) -> None:
        """Read a product of scores: with a parameter it mixes heads, with an activation it makes new scores."""
        if func is F.linear or func in CONVOLUTIONS:
            weight = kwargs["weight"] if "weight" in kwargs else args[1]
            if (x.dim() >= 4 and weight.shape[0] == weight.shape[1]) or weight.shape[0] == 1:
                self._follow(out, replace(trail, scale=None))
            return
        others = [y for y in _tensors(args, kwargs) if y is not x]
        if trail.axis is None and not trail.scores.learned:
            if len(others) == 1 and self._constant(others[0]):
                sizes = others[0].shape
                if len(sizes) == 2 and (sizes[0] == sizes[1] or 1 in sizes):
                    self._follow(out, replace(trail, scale=None))
                return
            self._suspect("it multiplies values with scores that did not pass a softmax")
        self._begin_product(func, args, kwargs, out)

    def _continue_exponentials(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, trail: Trail, out: Any
    ) -> Weighing | None:
        """Follow exp(scores), or its product with values, to the division by its sum."""
        divisor = self._trail_of(args, 1)
        if divisor is None or divisor.stage != "sum":
            divisor = self._trail_of(args, 0)
        is_sum = divisor is not None and divisor.stage == "sum" and divisor.axis is not None
        divided = is_sum and divisor is not None and (
            (func in DIVISIONS and not divisor.inverse) or (func in MULTIPLICATIONS and divisor.inverse)
        )  # fmt: skip
        if trail.stage == "unnormalized output":
            if divided and trail.product is not None and divisor is not None:
                sums = args[1] if self._trail_of(args, 1) is divisor else args[0]
                return self._normalize(trail, 1 / sums if divisor.inverse else sums, out)
            if func in RESHAPES or func in CASTS:
                self._follow(out, trail)
            elif isinstance(out, Tensor) and out.numel() == x.numel() and out.dtype.is_floating_point:
                self._lose(x, trail, f"{_name(func)}: parts that are added, or divided later")
            return None
        if divided and divisor is not None:
            self._start(out, divisor.axis, trail)
        elif func is F.normalize and kwargs.get("p", args[1] if len(args) > 1 else 2) == 1:
            self._start(out, _normalized_axis(args, kwargs, x), trail)
        elif func in SUMS:
            axes = _dims(args, kwargs, x)
            if len(axes) == 1:
                self._follow(out, replace(trail, stage="sum", axis=axes[0]))
        elif func in SCATTERED_SUMS:
            self._lose(x, trail, _name(func))
        elif func in PRODUCTS:
            product = read_product(func, args, kwargs)
            if product is not None:
                return self._multiply(product, out)
        elif func not in NO_SCORES:
            for y in [out] if isinstance(out, Tensor) else out if isinstance(out, tuple | list) else []:
                self._follow(y, trail)
        return None

    def _start(self, weights: Any, axis: int | None, trail: Trail) -> None:
        """Begin to follow the result of a softmax."""
        if isinstance(weights, Tensor) and not trail.scores.over_parameter:
            size = weights.shape[-1 if axis is None else axis]
            softmax = Softmax(self.module(), tuple(weights.shape), size, trail.scores, trail.scale)
            self.softmaxes.append(softmax)
            self._follow(weights, Trail("weights", axis, None, softmax, trail.scores))

    def _lose(self, x: Tensor, trail: Trail, where: str) -> None:
        """Report a softmax written by hand that cannot be followed."""
        self.softmaxes.append(Softmax(self.module(), tuple(x.shape), scores=trail.scores, lost_in=where))

    def _trail_of(self, args: tuple[Any, ...], i: int) -> Trail | None:
        return self._trail(args[i]) if len(args) > i and isinstance(args[i], Tensor) else None

    # From the weights to the product with values

    def _pass_on(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, trail: Trail, out: Any
    ) -> None:
        """Follow the axis of the keys through a function that is not a product."""
        assert trail.axis is not None
        if func in WRITES:
            self._write(func, args, kwargs, x, trail, out)
            return
        if func in DROPOUT and out is x and _drops(args, kwargs):  # in place: the weights before it are gone
            self._forget(x, trail, "dropout in place")
            return
        for y, axis in follow_axis(func, args, kwargs, x, trail.axis, out):
            if axis is None:
                self._forget(y, trail, _name(func))
                continue
            value: Tensor | None = None
            if func in DROPOUT and _drops(args, kwargs):
                value = x if trail.value is None else trail.value
            elif trail.value is not None:
                value = self._repeat(func, args, kwargs, y)
            self._follow(y, replace(trail, axis=axis, value=value))

    def _forget(self, y: Tensor, trail: Trail, where: str) -> None:
        self.trails.pop(id(y), None)
        if trail.softmax is not None and y.numel() > 1 and y.dtype.is_floating_point:
            trail.softmax.lost_in = where

    def _write(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, trail: Trail, out: Any
    ) -> None:
        """Follow weights that are written into a part of another tensor, or the tensor they are written into."""
        target = args[0] if out is None else out
        if not isinstance(target, Tensor) or trail.axis is None:
            return
        if args[0] is x:  # the weights are changed in place
            self._follow(target, trail)
        elif target.dim() >= -trail.axis:
            self._follow(target, replace(trail, value=None))

    def _repeat(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> Tensor:
        """Apply a function to what its arguments would be without dropout."""

        def clean(x: Any) -> Any:
            if isinstance(x, list | tuple):
                return type(x)(map(clean, x)) if type(x) in (list, tuple) else x
            trail = self._trail(x) if isinstance(x, Tensor) else None
            return x if trail is None or trail.value is None else trail.value

        result = func(*map(clean, args), **{name: clean(x) for name, x in kwargs.items()})
        return result if isinstance(result, Tensor) else out

    def _continue_output(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, trail: Trail, out: Any
    ) -> None:
        fold = trail.fold
        assert trail.axis is not None
        if fold is None:  # the result for learned queries
            if func in PRODUCTS and trail.softmax is not None:
                product = read_product(func, args, kwargs)
                if product is not None and any(
                    y is x and term[trail.axis] not in product.result
                    for y, term in zip(product.operands, product.labels, strict=True)
                ):
                    trail.softmax.queries_summed = not any(map(self._constant, product.operands))
                return
        elif func in RESHAPES:
            fold.split = fold.split or split_by_reshape(x.shape, out.shape, trail.axis)
        elif func in CHUNKS and out and out[0].dim() == x.dim() and out[0].shape[trail.axis] < fold.size:
            fold.split = fold.split or (len(out), out[0].shape[trail.axis])
        if fold is None or fold.split is None:
            for y, axis in follow_axis(func, args, kwargs, x, trail.axis, out):
                if axis is not None:
                    self._follow(y, replace(trail, axis=axis))

    def follow_output(self, out: Any, axis: int, fold: Fold) -> None:
        """Follow the output of a call to where the axis that holds batch and heads is split."""
        self._follow(out, Trail("output", axis, fold=fold))

    def _multiply(self, product: Product, out: Any) -> Weighing | None:
        """Read a product with at least one followed operand."""
        trails = [self._trail(x) for x in product.operands]
        followed = [i for i, trail in enumerate(trails) if trail is not None and trail.stage in WEIGHING]
        if len(followed) > 1:
            self.composed.add(self.module())  # weights × weights: an approximation from several softmaxes
            return None
        if not followed:
            return None
        i = followed[0]
        trail, labels = trails[i], product.labels[i]
        assert trail is not None
        others = [j for j in range(len(product.operands)) if j != i]
        if trail.stage == "exponentials":  # the sum over the keys comes later: take the axis that is summed here
            summed = [a - len(labels) for a, x in enumerate(labels) if x not in product.result]
            if len(summed) != 1:
                return None
            trail = replace(trail, axis=summed[0])
        assert trail.axis is not None
        key = labels[trail.axis]
        with_key = [j for j in others if key in product.labels[j]]
        if key in product.result or not with_key:
            if trail.softmax is not None and self._sums_over_another_axis(product, i, others, trail):
                trail.softmax.wrong_axis = True
                return None
            if key in product.result and trail.stage == "weights" and self._mixes(product, i, others):
                axis = product.result.index(key) - len(product.result)
                self._follow(out, replace(trail, axis=axis, value=None))
            return None
        values = next((j for j in with_key if not self._constant(product.operands[j])), None)
        if values is None or not isinstance(out, Tensor):
            return None
        weighing = self._weighing(product, i, values, trail, out)
        if weighing is None:
            return None
        if trail.stage == "exponentials":
            self._follow(out, Trail("unnormalized output", product=weighing, scores=trail.scores))
            return None
        result = list(product.result)
        query = next((x for x in reversed(labels) if x in result and x not in product.labels[values]), None)
        folded = next((x for x in labels if x != key and (x != "row" or len(labels) < 3)), None)
        if trail.scores.learned and query is not None:
            self._follow(out, Trail("output", result.index(query) - len(result), softmax=trail.softmax))
        elif weighing.fold is not None and folded is not None and folded in result:
            self.follow_output(out, result.index(folded) - len(result), weighing.fold)
        return weighing

    def _sums_over_another_axis(self, product: Product, i: int, others: list[int], trail: Trail) -> bool:
        """Whether weights are multiplied with values over their last axis, which neither softmax nor sum normalized."""
        weights, labels = product.operands[i], product.labels[i]
        if trail.stage != "weights" or trail.axis == -1 or trail.scores.learned or weights.dim() < 3:
            return False
        if labels[-1] in product.result or (weights.dim() < 4 and weights.shape[-1] != weights.shape[-2]):
            return False
        values = [j for j in others if labels[-1] in product.labels[j] and not self._constant(product.operands[j])]
        return bool(values) and bool(((weights.detach().sum(-1) - 1).abs() > 1e-2).any())

    def _mixes(self, product: Product, i: int, others: list[int]) -> bool:
        """Whether a product that keeps the axis of the keys mixes heads: it replaces one axis by one of its size."""
        if all(self._constant(product.operands[j]) for j in others):
            return True
        kept = [x for x in product.labels[i] if x in product.result]
        new = [x for x in product.result if x not in product.labels[i]]
        return len(product.result) == len(product.labels[i]) == len(kept) + 1 == len(kept) + len(new)

    def _weighing(self, product: Product, i: int, j: int, trail: Trail, out: Tensor) -> Weighing | None:
        """Arrange the operand i as (…, L, S): its other axes, the axis of the queries, the axis of the keys."""
        labels, of_values, result = list(product.labels[i]), list(product.labels[j]), list(product.result)
        weights, values = product.operands[i] if trail.value is None else trail.value, product.operands[j]
        assert trail.axis is not None
        key = labels[trail.axis]
        sizes = dict(zip(labels, weights.shape, strict=True))
        candidates = [x for x in labels if x != key and x not in of_values]
        leading = [x for x in labels if x != key]
        if len(leading) > 1 and leading[0] in candidates and leading[-1] not in candidates:
            return None  # relative positions: "values" of pairs of a query and a key, the same for the whole batch
        query, leading = self._order(candidates, leading, sizes)
        if query is None and self._has_own_keys(trail, [sizes[x] for x in leading]):
            return None
        arranged = weights.permute([labels.index(x) for x in (*leading, *([] if query is None else [query]), key)])
        arranged = arranged if query is not None else arranged[..., None, :]
        features = [x for x in of_values if x not in leading and x != key]
        placed = values.permute([of_values.index(x) for x in (*(x for x in leading if x in of_values), key, *features)])
        for position, label in enumerate(leading):
            placed = placed if label in of_values else placed.unsqueeze(position)
        placed = _last_axis(placed, len(features))
        output: Tensor | None = None
        rest = [x for x in result if x not in leading and x != query]
        if len(result) == out.dim() and all(x in result for x in (*leading, *([] if query is None else [query]))):
            output = out.permute([result.index(x) for x in (*leading, *([] if query is None else [query]), *rest)])
            output = _last_axis(output if query is not None else output.unsqueeze(len(leading)), len(rest))
        output = output if len(product.operands) == 2 else None
        if len(leading) == 3 and self._has_groups(arranged, placed):
            arranged = arranged.flatten(1, 2)
            placed = placed.expand(-1, -1, arranged.shape[1] // placed.shape[1], -1, -1).flatten(1, 2)
            output = None if output is None else output.flatten(1, 2)
        return self._count(arranged, placed, output, trail, trail.value is not None)

    def _has_groups(self, weights: Tensor, values: Tensor) -> bool:
        """Whether (B, H_kv, group, L, S) weights have groups of heads that share values; else the axes are windows."""
        _, outer, inner = weights.shape[:3]
        heads = self.heads(self.module())
        if values.shape[1] != outer:
            return False
        return outer * inner == heads if heads is not None else values.shape[2] == 1 < inner

    def _order(
        self, candidates: list[Label], leading: list[Label], sizes: dict[Label, int]
    ) -> tuple[Label | None, list[Label]]:
        """Return the label of the queries, and the other labels with that of the heads last."""
        heads = self.heads(self.module()) if len(leading) > 2 else None
        query = candidates[-1] if candidates else None
        for candidate in reversed(candidates):  # (B, L, H, S) where the heads share values: H is not the queries
            if math.prod(sizes[x] for x in leading[1:] if x != candidate) == heads:
                query = candidate
                break
        leading = [x for x in leading if x != query]
        if heads is not None and len(leading) > 1 and sizes[leading[-1]] != heads:
            same = [x for x in leading if sizes[x] == heads]
            if len(same) == 1:
                leading = [*(x for x in leading if x != same[0]), same[0]]
        return query, leading

    def _has_own_keys(self, trail: Trail, sizes: list[int]) -> bool:
        """Whether every query has keys and values of its own, where no axis of the weights belongs to queries only."""
        own = len(sizes) > 2
        if len(sizes) == 2:  # (B, H, S) or (B, L, S)
            heads, lengths = self.heads(self.module()), self.lengths()
            own = sizes[1] != heads and len(lengths) > 1 and sizes[1] == lengths[1] > 1
        if own and trail.softmax is not None:
            trail.softmax.own_keys = True
        return own

    def _count(
        self, weights: Tensor, values: Tensor, output: Tensor | None, trail: Trail, dropout: bool
    ) -> Weighing | None:
        softmax = trail.softmax
        if softmax is None:  # exponentials, whose sum is not known yet
            softmax = Softmax(self.module(), tuple(weights.shape), weights.shape[-1], trail.scores, trail.scale)
        softmax.products += 1
        softmax.partial_products += weights.shape[-1] + 1 < softmax.size
        if softmax.products > 1 and weights.numel() >= math.prod(softmax.shape):
            return None  # the same weights again, with other values
        weights, values = unwrap(weights.detach()), unwrap(values.detach())
        output = None if output is None else unwrap(output.detach())
        fold = Fold(len(weights)) if weights.dim() == 3 else None
        return Weighing(weights, softmax, values, output, softmax.scale, fold, dropout)

    def _normalize(self, trail: Trail, divisor: Tensor, out: Any) -> Weighing | None:
        """Divide exponentials that were multiplied with values before they were divided by their sum."""
        weighing = trail.product
        assert weighing is not None
        weights = weighing.weights
        if divisor.dim() == weights.dim() - 1:
            divisor = divisor.unsqueeze(-1)
        if divisor.shape[-1] != 1:
            self._lose(weights, trail, "a division")
            return None
        output = out if weighing.output is not None and out.shape == weighing.output.shape else None
        return replace(weighing, weights=weights / divisor.detach(), output=output)

    def _weighs(self, args: tuple[Any, ...], x: Tensor, out: Tensor) -> bool:
        """Whether an elementwise product of weights is with values: axes of the values are added to the weights."""
        if out.shape != x.shape:
            return True
        expanded = any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape, strict=True))
        return expanded and all(not isinstance(y, Tensor) or y is x or y.shape == x.shape for y in args)

    def _weigh_elementwise(self, args: tuple[Any, ...], x: Tensor, trail: Trail, out: Tensor) -> None:
        """Weights × values elementwise: axes of size 1 of the weights are those of the values' features."""
        values = next((y for y in args if isinstance(y, Tensor) and y is not x), None)
        if values is None or trail.axis is None or self._constant(values):
            return
        weights, n = (x if trail.value is None else trail.value)[(None,) * (out.dim() - x.dim())], out.dim()
        once = [size == 1 or stride == 0 for size, stride in zip(weights.shape, weights.stride(), strict=True)]
        features = [i for i in range(n) if once[i] and out.shape[i] > 1]
        axis = trail.axis % n
        shown = [i >= n - values.dim() and values.shape[i - n] > 1 for i in range(n)]
        kept = [i for i in range(n) if i != axis and i not in features]
        queries = [i for i in kept if not shown[i] and weights.shape[i] > 1][-1:]
        leading = [i for i in kept if i not in queries]
        if not queries and self._has_own_keys(trail, [weights.shape[i] for i in leading if weights.shape[i] > 1]):
            return
        weights = weights.permute(*leading, *queries, axis, *features)
        for _ in features:
            weights = weights[..., 0]
        placed = values[(None,) * (n - values.dim())].permute(*leading, *queries, axis, *features)
        placed = _last_axis(placed.squeeze(len(leading)) if queries else placed, len(features))
        weighing = Weighing(weights if queries else weights[..., None, :], Softmax(None, ()), placed)
        self._follow(out, Trail("weighted values", axis - n, product=weighing, softmax=trail.softmax))

    def _finish_elementwise(self, trail: Trail, out: Any) -> Weighing | None:
        """Return the weights when their product with values has been summed over the keys."""
        weighing = trail.product
        assert weighing is not None
        assert weighing.values is not None
        return self._count(weighing.weights, weighing.values, None, trail, dropout=False)


SEQUENCES = (list, tuple)
WEIGHING: Container[str] = ("weights", "exponentials")
BEFORE_SCORES: Container[str] = ("scaled", "constant")
PRIORITY = {"unnormalized output": 1, "scores": -1, "sum": -2, "output": -3, "scaled": -4, "constant": -5}


def _last_axis(x: Tensor, count: int) -> Tensor:
    """Return x with its last `count` axes in one."""
    return x.unsqueeze(-1) if count == 0 else x.flatten(-count) if count > 1 else x


def _number(x: Any) -> float | None:
    """Return a number, or the only element of a tensor on the CPU."""
    if isinstance(x, int | float):
        return float(x)
    if isinstance(x, Tensor) and x.numel() == 1 and x.device.type == "cpu" and type(x) in (Tensor, nn.Parameter):
        return float(x.detach())
    return None


def _factor(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, scale: float | None) -> float | None:
    """Return the factor of scores after a function; None if it is not one number."""
    if scale is None or func in KEEP_SCALE or _name(func) == "__get__":
        return scale
    other = next((y for y in (*args, kwargs.get("other")) if y is not x and y is not None), None)
    number = _number(other)
    if number is not None and func in MULTIPLICATIONS:
        return scale * number
    return scale / number if number and func in DIVISIONS and args[0] is x else None


def _softmax_axis(args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor) -> int:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if not isinstance(dim, int):  # torch's old default
        dim = 0 if x.dim() in (0, 1, 3) else 1
    return dim if dim < 0 else dim - x.dim()


def _normalized_axis(args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor) -> int:
    dim: int = kwargs.get("dim", args[2] if len(args) > 2 else 1)
    return dim if dim < 0 else dim - x.dim()


def _dims(args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor) -> list[int]:
    """Return the axes that a reduction sums over, counted from the end."""
    dim = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    dims = [dim] if isinstance(dim, int) else list(dim) if isinstance(dim, list | tuple) and dim else range(x.dim())
    return [d if d < 0 else d - x.dim() for d in dims]


def _divisor_axis(args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, trail: Trail) -> int | None:
    """Return the axis of a sum of weights by which they may be divided; None for a sum over heads."""
    dims = _dims(args, kwargs, x)
    keeps = kwargs.get("keepdim", len(args) > 2 and args[2])
    return dims[0] if len(dims) == 1 and (keeps or dims[0] == trail.axis) else None


def _name(func: Any) -> str:
    return getattr(func, "__name__", str(func))


def _drops(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    rate, training = (kwargs.get(name, args[i] if len(args) > i else True) for i, name in ((1, "p"), (2, "training")))
    return bool(rate and training)


def _tensors(args: Iterable[Any], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    for x in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(x, Tensor):
            yield x
        elif type(x) in (list, tuple):
            for y in x:
                if isinstance(y, Tensor):
                    yield y
