"""Tensors whose values are computed when they are first read: base of lazy masks and lazy weights.

A lazy tensor knows its shape, dtype and device. Every torch function that needs values receives the computed tensor
instead, so that all functions work and gradients flow. The values are then kept, so that changes in place persist.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from regard.attention.listeners import listeners_muted

_PROPERTIES = (
    "shape", "dtype", "device", "ndim", "layout", "is_cuda", "is_cpu", "is_meta", "is_sparse", "is_quantized",
    "is_nested", "is_mps", "is_xpu", "names", "itemsize",
)  # fmt: skip
METADATA: set[Any] = {
    *(getattr(Tensor, name).__get__ for name in _PROPERTIES if hasattr(Tensor, name)),
    Tensor.size, Tensor.dim, Tensor.ndimension, Tensor.numel, Tensor.nelement, Tensor.__len__, Tensor.element_size,
    Tensor.is_floating_point, Tensor.is_complex, Tensor.is_signed, Tensor.get_device, Tensor.__hash__,
    Tensor.is_inference, torch.numel, torch.is_floating_point, torch.is_complex, torch.is_tensor,
}  # fmt: skip
_REQUIRES_GRAD = Tensor.requires_grad.__get__  # type: ignore[attr-defined]  # a descriptor
CONVERSIONS: set[Any] = {
    Tensor.to, Tensor.cpu, Tensor.float, Tensor.double, Tensor.half, Tensor.bfloat16, Tensor.bool, Tensor.contiguous,
}  # fmt: skip


class LazyTensor(Tensor):
    """Base of tensors that are computed on demand. Subclasses define `_compute`, and may define `_select`."""

    _computed_values: Tensor | None

    @staticmethod
    def __new__(cls: Any, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, **_: Any) -> Any:
        tensor = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)
        tensor._computed_values = None
        return tensor

    @property
    def is_computed(self) -> bool:
        """Whether all values have been computed."""
        return self._computed_values is not None

    def values(self) -> Tensor:  # replaces Tensor.values of sparse tensors
        """Return the computed tensor."""
        if self._computed_values is None:
            with listeners_muted:  # the computation is not attention of the model that is watched
                self._computed_values = self._compute()
        return self._computed_values

    def __iter__(self) -> Iterator[Tensor]:
        # Tensor.__iter__ is not passed to __torch_function__, and would compute all values.
        return (self[i] for i in range(len(self)))

    def _compute(self) -> Tensor:
        raise NotImplementedError

    def _select(self, index: Any) -> Tensor | None:
        """Return self[index] if it can be had without all values, else None."""
        return None

    def _detached(self) -> Tensor | None:
        """Return self.detach() if it can be had without all values, else None."""
        return None

    def _needs_grad(self) -> bool:
        return False

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in METADATA:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        x = args[0] if args else None
        if isinstance(x, LazyTensor) and not x.is_computed:
            result = x._without_values(func, args[1:], kwargs)
            if result is not None:
                return result
        args, kwargs = tree_map(_computed, (args, kwargs))
        return func(*args, **kwargs)

    def _without_values(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a function that does not need all values; None if it needs them."""
        if func is Tensor.__getitem__:
            with listeners_muted:
                return self._select(args[0])
        if func == _REQUIRES_GRAD:
            return self._needs_grad()
        if func is Tensor.detach:
            return self._detached()
        if func is Tensor.__repr__ and self.numel() > 1 << 20:
            return f"{type(self).__name__}(shape={tuple(self.shape)}, dtype={self.dtype}, not computed yet)"
        if func in CONVERSIONS and not kwargs.get("copy"):
            example = torch.empty(0, dtype=self.dtype, device=self.device)
            return self if func(example, *args, **kwargs) is example else None
        return None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Serve calls that do not pass __torch_function__, such as torch.as_tensor."""
        args, kwargs = tree_map(_computed, (args, kwargs or {}))
        return func(*args, **kwargs)


def _computed(x: Any) -> Any:
    return x.values() if isinstance(x, LazyTensor) else x
