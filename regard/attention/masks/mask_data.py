"""The data of masks (lengths, ids, boolean tables), torch tensors or NumPy arrays, and their conversion."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_tensor(data: Any) -> bool:
    """Return whether `data` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(data, torch.Tensor)


def is_symbolic(data: Any) -> bool:
    """Return whether the values cannot be read, because the code runs inside torch.compile or torch.func.vmap."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if torch.compiler.is_compiling():  # first, because torch.compile cannot trace the functions below
        return True
    # torch.func has no public test for a tensor inside vmap; reading the values and catching the error would be slow.
    functorch = torch._C._functorch
    while is_tensor(data) and functorch.is_functorch_wrapped_tensor(data):
        if functorch.is_batchedtensor(data):
            return True
        data = functorch.get_unwrapped(data)
    return False


def array_or_tensor(data: Any) -> Any:
    """Return tensors unchanged, and anything else as a NumPy array."""
    return data if is_tensor(data) else np.asarray(data)


def integers(data: Any) -> Any:
    """Return tensors unchanged, and anything else as a NumPy array; an empty list becomes an array of integers."""
    array = array_or_tensor(data)
    return array if is_tensor(array) or array.size or dtype_kind(array) == "bool" else array.astype(np.int64)


def as_numpy(data: Any) -> NDArray[Any]:
    """Return the data as a NumPy array, from any device."""
    if not is_tensor(data):
        return np.asarray(data)
    data = data.detach().cpu()
    if sys.modules["torch"]._C._functorch.is_functorch_wrapped_tensor(data):
        # Inside torch.func.grad, numpy() raises an error, also for the unwrapped data of tensors created there; in
        # torch 2.6 tolist() does, too.
        return np.asarray([x.item() for x in data.flatten()], str(data.dtype).removeprefix("torch.")).reshape(
            tuple(data.shape)
        )
    return np.asarray(data.numpy())


def as_kind_of(index: Any, data: Any) -> Any:
    """Return the data as a tensor on the device of `index` if `index` is a tensor, else as a NumPy array."""
    return as_tensor(data, index.device) if is_tensor(index) else as_numpy(data)


def as_tensor(data: Any, device: Any) -> Any:
    """Return the data as a tensor on a device."""
    return sys.modules["torch"].as_tensor(data, device=device)


def dtype_kind(data: Any) -> str:
    """Return 'bool', 'int', 'float' … for an array or tensor."""
    name = str(data.dtype).removeprefix("torch.")
    return "int" if name.startswith(("int", "uint")) else name.rstrip("0123456789_")


def changes(values: NDArray[Any]) -> list[int]:
    """Return the positions at which a row of values differs from the position before."""
    return [int(position) + 1 for position in np.flatnonzero(values[1:] != values[:-1])]
