"""Tensors inside torch.func transforms (vmap, grad), as plain tensors with the mapped dimensions in front."""

from typing import Any

import torch
from torch import Tensor

_functorch = torch._C._functorch


def unwrap_arguments(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[tuple[Any, ...], Any, Any]:
    """Return the arguments and the result of a function with plain tensors, which broadcast as the wrapped ones do."""
    if _functorch.maybe_current_level() is None:  # no transform is active
        return args, kwargs, out
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    if not any(map(_is_wrapped, tensors)):
        return args, kwargs, out
    sizes, rank = _mapped_sizes(tensors), max(x.dim() for x in tensors)
    plain = [_plain(x, sizes, rank) for x in args], {name: _plain(x, sizes, rank) for name, x in kwargs.items()}
    return tuple(plain[0]), plain[1], _plain(out, sizes)


def unwrap(x: Tensor) -> Tensor:
    """Return a plain tensor, with the mapped dimensions in front."""
    return _plain(x, _mapped_sizes([x])) if _is_wrapped(x) else x


def _is_wrapped(x: Tensor) -> bool:
    return bool(_functorch.is_functorch_wrapped_tensor(x))


def _mapped_sizes(tensors: list[Tensor]) -> dict[int, int]:
    """Return the size of each level of vmap that the tensors are in, outermost first."""
    sizes = {}
    for x in tensors:
        while _is_wrapped(x):
            inner = _functorch.get_unwrapped(x)
            if _functorch.is_batchedtensor(x):
                sizes[_functorch.maybe_get_level(x)] = inner.shape[_functorch.maybe_get_bdim(x)]
            x = inner
    return dict(sorted(sizes.items()))


def _plain(x: Any, sizes: dict[int, int], rank: int = 0) -> Any:
    """Return a tensor with one leading dimension for each level of vmap; what is not a tensor is returned unchanged.

    rank    add dimensions of size 1 after the mapped ones, up to this number of other dimensions
    """
    if not isinstance(x, Tensor):
        return x
    mapped, missing = set(), max(0, rank - x.dim())
    while _is_wrapped(x):  # the innermost level of vmap is the outermost wrapper
        inner = _functorch.get_unwrapped(x)
        if _functorch.is_batchedtensor(x):
            mapped.add(_functorch.maybe_get_level(x))
            inner = inner.movedim(_functorch.maybe_get_bdim(x), 0)
        x = inner
    for axis, (level, size) in enumerate(sizes.items()):
        if level not in mapped:
            x = x.unsqueeze(axis).expand(*x.shape[:axis], size, *x.shape[axis:])
    return x.detach()[(slice(None),) * len(sizes) + (None,) * missing]
