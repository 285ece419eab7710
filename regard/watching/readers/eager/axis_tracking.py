"""Where an axis of a tensor goes in a torch function: the reader of eager attention follows the axis of the keys.

Axes are counted from the end (−1 is the last one), as broadcasting does.
"""

from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any

import torch
from torch import Tensor

from regard.watching.call_inputs import storage_id

RESHAPES = {
    Tensor.view, Tensor.reshape, torch.reshape, Tensor.flatten, torch.flatten, Tensor.unflatten, torch.unflatten,
    Tensor.view_as, Tensor.reshape_as,
}  # fmt: skip
REORDERINGS = {torch.flip, Tensor.flip, torch.roll, Tensor.roll, torch.sort, Tensor.sort, torch.fliplr, torch.cumsum}
JOINS = {torch.cat, torch.concat, torch.concatenate}
REDUCTIONS = {torch.sum, Tensor.sum, torch.mean, Tensor.mean}
OTHER_AXIS = {
    torch.index_select, Tensor.index_select, Tensor.__getitem__, torch.gather, Tensor.gather,
    torch.repeat_interleave, Tensor.repeat_interleave, Tensor.repeat, torch.tile, torch.nn.functional.pad,
}  # fmt: skip


def follow_axis(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, axis: int, out: Any
) -> list[tuple[Tensor, int | None]]:
    """Return each tensor of the output of `func` and where the axis of its argument x is in it; None if it is lost.

    >>> x = torch.zeros(2, 3, 4, 5)
    >>> out = x.transpose(1, 3)
    >>> [axis for _, axis in follow_axis(torch.transpose, (x, 1, 3), {}, x, -1, out)]
    [-3]
    """
    outputs = [y for y in (out if isinstance(out, tuple | list) else [out]) if isinstance(y, Tensor)]
    if func in RESHAPES:
        return [(y, _after_reshape(x.shape, y.shape, axis)) for y in outputs]
    views = [y for y in outputs if y is not x and storage_id(y) == storage_id(x)]
    if views:
        return list(zip(outputs, _after_view(func, args, kwargs, x, axis, len(outputs)), strict=True))
    if func is torch.stack or func in REDUCTIONS:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 0 if func is torch.stack else None)
        return [(y, _after_other_axis(x, axis, y, dim)) for y in outputs]
    return [(y, _in_new_tensor(func, x, axis, y)) for y in outputs]


def _after_other_axis(x: Tensor, axis: int, y: Tensor, dim: Any) -> int | None:
    """Return where an axis goes when another one is added by stack or removed by a sum."""
    if not isinstance(dim, int) or y.dim() == x.dim():
        return None
    i, other = axis % x.dim(), dim % max(x.dim(), y.dim())
    if y.dim() > x.dim():
        return (i + (other <= i)) - y.dim()
    return None if i == other else i - (other < i) - y.dim()


def _in_new_tensor(func: Any, x: Tensor, axis: int, y: Tensor) -> int | None:
    if func in REORDERINGS:
        return None
    if y.shape == x.shape or (func in JOINS and y.dim() == x.dim()):
        return axis
    if func in OTHER_AXIS:
        return axis if y.dim() == x.dim() and y.shape[axis] == x.shape[axis] else None
    sizes = list(zip(reversed(x.shape), reversed(y.shape), strict=False))
    broadcast = len(sizes) == x.dim() and all(a in (1, b) for a, b in sizes)
    return axis if broadcast and y.shape[axis] == x.shape[axis] else None


def _after_reshape(old: torch.Size, new: torch.Size, axis: int) -> int | None:
    """Return the axis of the new shape with the same size and as many elements before it; None if there is none."""
    before = _elements_before(old)[axis]
    for i, (size, count) in enumerate(zip(new, _elements_before(new), strict=True)):
        if size == old[axis] and count == before:
            return i - len(new)
    return None


def split_by_reshape(old: torch.Size, new: torch.Size, axis: int) -> tuple[int, int] | None:
    """Return the two sizes into which a reshape splits an axis; None if it does not.

    The second part may be merged with the next axis, as when heads are put side by side again:

    >>> split_by_reshape(torch.Size([6, 5, 4]), torch.Size([2, 3, 5, 4]), -3)
    (2, 3)
    >>> split_by_reshape(torch.Size([5, 6, 4]), torch.Size([5, 2, 12]), -2)
    (2, 3)
    """
    i = axis % len(old)
    before, size = _elements_before(old)[i], old[i]
    for first, count in zip(new, _elements_before(new), strict=True):
        if count == before and 1 < first < size and size % first == 0:
            return first, size // first
    if i > 0:  # the axis is merged with the one before it, and split again
        for first, count in zip(new, _elements_before(new), strict=True):
            if count == 1 and i == 1 and first > old[0] and first % old[0] == 0 and size % (first // old[0]) == 0:
                return first // old[0], size // (first // old[0])
    return None


def _elements_before(shape: torch.Size) -> list[int]:
    return list(accumulate(shape, mul, initial=1))[:-1]


def _after_view(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, axis: int, count: int
) -> list[int | None]:
    """Run a view function on an empty tensor in which only the tracked axis has small strides, and look for them."""
    size = x.shape[axis]
    strides, step = [0] * x.dim(), 1
    for i in [axis % x.dim(), *(i for i in range(x.dim()) if i != axis % x.dim())]:
        strides[i] = step
        step *= max(2, x.shape[i])
    probe = torch.empty_strided(x.shape, strides, dtype=x.dtype, device="meta")
    try:
        out = func(*(probe if a is x else a for a in args), **{k: probe if a is x else a for k, a in kwargs.items()})
    except (RuntimeError, IndexError, NotImplementedError):
        return [None] * count
    results = [y for y in ([out] if isinstance(out, Tensor) else out) if isinstance(y, Tensor)]
    if len(results) != count:
        return [None] * count
    found: list[int | None] = []
    for y in results:
        limit = max(2, size)
        axes = [i - y.dim() for i, (n, stride) in enumerate(zip(y.shape, y.stride(), strict=True))
                if 0 < stride < limit and (n > 1 or size == 1)]  # fmt: skip
        if not axes and size > 1:  # one element of the axis was selected, and the axis kept with size 1
            axes = [i - y.dim() for i, stride in enumerate(y.stride()) if stride == 1 and y.shape[i] == 1]
        found.append(axes[0] if axes and storage_id(y) == storage_id(probe) else None)
    return found
