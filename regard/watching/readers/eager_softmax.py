"""Reader of eager attention: follows a softmax of scores to the product of its result with values.

Attention written with torch functions is: scores, a product of two activations; a softmax of them; a product that sums
the result over the axis of the softmax. What happens in between is followed tensor by tensor: views, slices, casts,
dropout, masks, scaling and mixing of heads. The operand of the last product holds the weights, so whatever the model
did to them is included. Dropout is not: the weights before it are recorded.

A softmax of something else is not attention: the scores of experts, a vocabulary or a kernel function are the product
of an activation with a parameter.

| tensor | from |
|---|---|
| scores | a product of two activations, or a projection to one number (additive attention) |
| exponentials, their sum | exp(scores) and its sum: a softmax written by hand |
| log weights | log_softmax(scores), or scores − logsumexp(scores) |
| weights | a softmax of scores over the axis of the keys |
| weighted values | weights × values elementwise, before the sum over the keys |
| output | the product with values, followed to where batch and heads are separated, if they share an axis |
"""

import weakref
from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.watching.readers.axis_tracking import RESHAPES, follow_axis, split_by_reshape
from regard.watching.readers.products import PRODUCTS, Label, Product, read_product

Stage = Literal[
    "scores", "exponentials", "sum", "log weights", "weights", "weighted values", "unnormalized output", "output"
]

SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax}
LOG_SOFTMAX = {F.log_softmax, torch.log_softmax, Tensor.log_softmax, torch.special.log_softmax}
LOG_SUM_EXP = {torch.logsumexp, Tensor.logsumexp, torch.special.logsumexp}
EXP = {torch.exp, Tensor.exp, Tensor.exp_, torch.exp_, torch.exp2, Tensor.exp2}
SUMS = {torch.sum, Tensor.sum}
DIVISIONS = {torch.div, Tensor.div, Tensor.div_, Tensor.__truediv__, torch.true_divide, Tensor.__itruediv__}
SUBTRACTIONS = {torch.sub, Tensor.sub, Tensor.__sub__, Tensor.sub_}
MULTIPLICATIONS = {torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__, torch.multiply, Tensor.multiply}
DROPOUT = {F.dropout, torch.dropout, torch.native_dropout, F.alpha_dropout, F.dropout2d}
CHUNKS = {torch.chunk, Tensor.chunk, torch.split, Tensor.split, torch.tensor_split, Tensor.tensor_split}
STARTS = {*PRODUCTS, *MULTIPLICATIONS, torch.cdist}
NO_SCORES = {F.scaled_dot_product_attention, F.embedding}


@dataclass
class Softmax:
    """One softmax of scores that ran, and the products with values that followed it."""

    module: Any
    shape: tuple[int, ...]
    products: int = 0
    partial_products: int = 0  # products that sum over a part of the softmax axis only
    lost_in: str = ""  # the function in which its axis could not be followed


@dataclass
class Trail:
    """What is known about a tensor on the way from scores to the product with values."""

    stage: Stage
    axis: int = 0  # the axis of the keys, counted from the end
    value: Tensor | None = None  # the tensor itself, or what it would be without dropout
    softmax: Softmax | None = None
    product: "Weighing | None" = None  # for "unnormalized output" and "weighted values"
    fold: "Fold | None" = None  # for "output"


@dataclass
class Fold:
    """An axis that may hold batch and heads together, and the two sizes into which the model splits it later."""

    size: int
    split: tuple[int, int] | None = None


@dataclass
class Weighing:
    """Weights (…, L, S) of a product with values."""

    weights: Tensor
    values: Tensor
    softmax: Softmax
    fold: Fold | None = None  # where the weights have one axis besides queries and keys


@dataclass
class EagerReader:
    """Follows softmax results until they are multiplied with values.

    is_constant     whether a tensor shares the memory of a parameter or buffer
    module          returns what identifies the module that runs now
    """

    is_constant: Callable[[Tensor], bool]
    module: Callable[[], Any]
    softmaxes: list[Softmax] = field(default_factory=list)
    composed: set[Any] = field(default_factory=set)  # modules that multiply the results of several softmaxes
    trails: dict[int, tuple[Any, Trail]] = field(default_factory=dict)

    def read(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Weighing | None:
        """Process one torch function; return the weights when they have been multiplied with values."""
        if self.trails:
            followed = [(x, trail) for x in _tensors(args, kwargs) if (trail := self._trail(x)) is not None]
            if followed:  # take the tensor that is farthest on the way
                x, trail = max(followed, key=lambda pair: {"scores": -1, "sum": -2}.get(pair[1].stage, 0))
                return self._continue(func, args, kwargs, x, trail, out)
        if func in STARTS and isinstance(out, Tensor) and self._makes_scores(func, args, kwargs, out):
            self._follow(out, Trail("scores"))
        return None

    def _trail(self, x: Tensor) -> Trail | None:
        reference, trail = self.trails.get(id(x), (None, None))
        return trail if reference is not None and reference() is x else None

    def _follow(self, x: Any, trail: Trail) -> None:
        if isinstance(x, Tensor):
            key = id(x)
            self.trails[key] = weakref.ref(x, lambda _: self.trails.pop(key, None)), trail

    def _makes_scores(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> bool:
        """Whether the product is of two activations, or projects to one number."""
        if func is torch.cdist:
            return True
        operands = list(_tensors(args, kwargs))
        if len(operands) < 2 or not out.dtype.is_floating_point:
            return False
        if func in MULTIPLICATIONS:  # queries × keys before the sum over the features
            return out.numel() > max(x.numel() for x in operands[:2]) and not any(map(self.is_constant, operands[:2]))
        product = read_product(func, args, kwargs)
        if product is None or len(product.operands) < 2:
            return False
        constants = [x for x in product.operands if self.is_constant(x)]
        if not constants:
            return True
        return len(product.operands) == 2 and len(constants) == 1 and min(constants[0].shape, default=0) == 1

    def _continue(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, trail: Trail, out: Any
    ) -> Weighing | None:
        """Follow a tensor through a function."""
        if func in NO_SCORES:
            return None
        if trail.stage == "output" and trail.fold is not None:
            self._continue_output(func, args, kwargs, x, trail, out)
            return None
        if trail.stage == "scores":
            self._continue_scores(func, args, kwargs, x, out)
            return None
        if func in PRODUCTS and (product := read_product(func, args, kwargs)) is not None:
            return self._multiply(product, out)
        if trail.stage == "exponentials":
            if func in SUMS:
                self._follow(out, replace(trail, stage="sum", axis=_dim(args, kwargs, x)))
                return None
            if func in DIVISIONS and (divisor := self._trail_of(args, 1)) is not None and divisor.stage == "sum":
                self._start(out, divisor.axis)
                return None
        if trail.stage == "unnormalized output" and func in DIVISIONS and trail.product is not None:
            divisor = self._trail_of(args, 1)
            if divisor is not None and divisor.stage == "sum":
                return _normalize(trail.product, args[1], divisor.axis)
        if trail.stage == "log weights" and func in EXP:
            self._start(out, trail.axis)
            return None
        if trail.stage == "sum":
            if isinstance(out, Tensor):  # a constant is added, or a minimum applied; the divisor stays a sum
                self._follow(out, trail)
            return None
        if trail.stage == "weighted values" and func in SUMS and trail.product is not None:
            return trail.product if _dim(args, kwargs, x) == trail.axis else None
        if trail.stage == "weights" and func in MULTIPLICATIONS and isinstance(out, Tensor) and out.shape != x.shape:
            self._weigh_elementwise(args, x, trail, out)
            return None
        self._pass_on(func, args, kwargs, x, trail, out)
        return None

    def _continue_output(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, trail: Trail, out: Any
    ) -> None:
        fold = trail.fold
        assert fold is not None
        if func in RESHAPES:
            fold.split = fold.split or split_by_reshape(x.shape, out.shape, trail.axis)
        elif func in CHUNKS and out and out[0].dim() == x.dim() and out[0].shape[trail.axis] < fold.size:
            fold.split = fold.split or (len(out), out[0].shape[trail.axis])
        if fold.split is None:
            for y, axis in follow_axis(func, args, kwargs, x, trail.axis, out):
                if axis is not None:
                    self._follow(y, replace(trail, axis=axis))

    def _continue_scores(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, out: Any) -> None:
        if func in SOFTMAX or func in LOG_SOFTMAX:
            axis = _dim(args, kwargs, x)
            if func in SOFTMAX:
                self._start(out, axis)
            else:
                self._follow(out, Trail("log weights", axis))
        elif func in EXP:
            self._follow(out, Trail("exponentials", value=out))
        elif func in LOG_SUM_EXP:
            self._follow(out, Trail("sum", _dim(args, kwargs, x)))
        elif func in SUBTRACTIONS and (other := self._trail_of(args, 1)) is not None and other.stage == "sum":
            self._follow(out, Trail("log weights", other.axis))
        elif func is F.linear or func in (F.conv1d, F.conv2d):
            weight = kwargs["weight"] if "weight" in kwargs else args[1]
            if (x.dim() >= 4 and weight.shape[0] == weight.shape[1]) or weight.shape[0] == 1:  # heads are mixed
                self._follow(out, Trail("scores"))
        else:
            for y in [out] if isinstance(out, Tensor) else out if isinstance(out, tuple | list) else []:
                self._follow(y, Trail("scores"))

    def _start(self, weights: Any, axis: int) -> None:
        """Begin to follow the result of a softmax."""
        if isinstance(weights, Tensor):
            softmax = Softmax(self.module(), tuple(weights.shape))
            self.softmaxes.append(softmax)
            self._follow(weights, Trail("weights", axis, weights, softmax))

    def _trail_of(self, args: tuple[Any, ...], i: int) -> Trail | None:
        return self._trail(args[i]) if len(args) > i and isinstance(args[i], Tensor) else None

    def _pass_on(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, trail: Trail, out: Any
    ) -> None:
        """Follow the axis of the keys through a function that is not a product."""
        if trail.stage == "exponentials":
            trail = replace(trail, axis=-1)  # the axis is known once the sum is
        for y, axis in follow_axis(func, args, kwargs, x, trail.axis, out):
            if axis is None:
                if trail.softmax is not None and y.numel() > 1 and y.dtype.is_floating_point:
                    trail.softmax.lost_in = getattr(func, "__name__", str(func))
                continue
            value = y
            if trail.value is not None and (func in DROPOUT or trail.value is not x):
                value = trail.value if func in DROPOUT else _repeat(func, args, kwargs, x, trail.value, y)
            self._follow(y, replace(trail, axis=axis, value=value))

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
            trail = replace(trail, axis=summed[0] if len(summed) == 1 else 0)
        key = labels[trail.axis]
        if key in product.result or not any(key in product.labels[j] for j in others):
            if key in product.result and trail.stage == "weights":  # heads are mixed, the keys remain
                self._follow(out, replace(trail, axis=product.result.index(key) - len(product.result), value=out))
            return None
        if trail.stage == "exponentials":
            weighing = self._weighing(product, i, trail)
            self._follow(out, Trail("unnormalized output", product=weighing))
            return None
        values = next(product.operands[j] for j in others if key in product.labels[j])
        weighing = None if self.is_constant(values) else self._weighing(product, i, trail)
        if weighing is not None and weighing.fold is not None:
            folded = next(x for x in labels if x != key and (x != "row" or len(labels) < 3))
            self.follow_output(out, product.result.index(folded) - len(product.result), weighing.fold)
        return weighing

    def follow_output(self, out: Any, axis: int, fold: Fold) -> None:
        """Follow the output of a call to where the axis that holds batch and heads is split."""
        self._follow(out, Trail("output", axis, fold=fold))

    def _weighing(self, product: Product, i: int, trail: Trail) -> Weighing | None:
        """Arrange the followed operand as (…, L, S): its other axes, the axis of the queries, the axis of the keys."""
        labels, weights = list(product.labels[i]), trail.value
        assert weights is not None
        others: set[Label] = {x for j, term in enumerate(product.labels) if j != i for x in term}
        key = labels[trail.axis]
        queries = [x for x in labels if x != key and x not in others and x in product.result]
        if any(x not in product.result for x in labels if x != key):
            return None
        query = queries[-1:]
        leading = [x for x in labels if x != key and x not in query]
        arranged = weights.permute([labels.index(x) for x in (*leading, *query, key)])
        arranged = arranged if query else arranged[..., None, :]
        values = product.operands[next(j for j in range(len(product.operands)) if j != i)]
        return self._count(arranged, values, trail)

    def _count(self, weights: Tensor, values: Tensor, trail: Trail) -> Weighing | None:
        softmax = trail.softmax or Softmax(self.module(), tuple(weights.shape))
        softmax.products += 1
        size = softmax.shape[trail.axis] if trail.softmax else weights.shape[-1]
        softmax.partial_products += weights.shape[-1] + 1 < size
        if softmax.products > 1 and weights.numel() >= _numel(softmax.shape):
            return None  # the same weights again, with other values
        fold = Fold(len(weights)) if weights.dim() == 3 else None
        return Weighing(weights.detach(), values.detach(), softmax, fold)

    def _weigh_elementwise(self, args: tuple[Any, ...], x: Tensor, trail: Trail, out: Tensor) -> None:
        """Weights × values elementwise: axes of size 1 of the weights are those of the values' features."""
        values = next((y for y in args if isinstance(y, Tensor) and y is not x), None)
        if values is None or trail.value is None or self.is_constant(values):
            return
        weights = trail.value[(None,) * (out.dim() - x.dim())]
        features = [i for i in range(out.dim()) if weights.shape[i] == 1 and out.shape[i] > 1]
        axis = trail.axis % out.dim()
        shown = [
            1 if i >= out.dim() - values.dim() and values.shape[i - out.dim()] > 1 else 0 for i in range(out.dim())
        ]
        kept = [i for i in range(out.dim()) if i != axis and i not in features]
        queries = [i for i in kept if not shown[i] and weights.shape[i] > 1]
        order = [*(i for i in kept if i not in queries[-1:]), *queries[-1:], axis]
        arranged = (
            weights.permute(*order, *features).flatten(len(order)).squeeze(-1) if features else weights.permute(order)
        )
        arranged = arranged if queries else arranged[..., None, :]
        weighing = self._count(arranged, values, trail)
        self._follow(out, Trail("weighted values", axis - out.dim(), product=weighing, softmax=trail.softmax))


WEIGHING: Container[str] = ("weights", "exponentials")


def _normalize(weighing: Weighing, divisor: Tensor, axis: int) -> Weighing | None:
    """Divide exponentials that were multiplied with values before they were divided by their sum."""
    weights = weighing.weights
    if divisor.dim() == weights.dim() - 1:
        divisor = divisor.unsqueeze(axis)
    return replace(weighing, weights=weights / divisor) if divisor.shape[-1] == 1 else None


def _repeat(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, value: Tensor, out: Tensor) -> Tensor:
    """Apply a function to what a tensor would be without dropout."""
    result = func(*(value if a is x else a for a in args), **{k: value if a is x else a for k, a in kwargs.items()})
    return result if isinstance(result, Tensor) else out


def _dim(args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor) -> int:
    """Return the axis that a reduction or softmax is told, counted from the end."""
    dim = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else -1))
    dim = dim[0] if isinstance(dim, tuple | list) and len(dim) == 1 else dim
    dim = dim if isinstance(dim, int) else -1
    return dim if dim < 0 else dim - x.dim()


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    tensors = []
    for x in (*args, *kwargs.values()):
        if isinstance(x, Tensor):
            tensors.append(x)
        elif isinstance(x, list | tuple):
            tensors += [y for y in x if isinstance(y, Tensor)]
    return tensors


def _numel(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())
