"""Numbers that a rule carries: kept as given (tensor, array, list), read as NumPy or torch as needed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


def is_tensor(thing: Any) -> bool:
    """Whether it is a torch tensor, found out without importing torch."""
    module = sys.modules.get("torch")
    return module is not None and isinstance(thing, module.Tensor)


def symbolic(thing: Any) -> bool:
    """Whether its values cannot be looked at now: we are inside torch.compile or torch.func.vmap."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return torch.compiler.is_compiling() or (is_tensor(thing) and torch._C._functorch.is_batchedtensor(thing))


def as_array(thing: Any) -> NDArray[Any]:
    """As NumPy, wherever it lives."""
    return np.asarray(thing.detach().cpu().numpy() if is_tensor(thing) else thing)


def beside(thing: Any, index: Any) -> Any:
    """As a tensor on the index's device when the index is one, else as NumPy."""
    if not is_tensor(index):
        return as_array(thing)
    import torch

    found: torch.Tensor = torch.as_tensor(thing, device=index.device)
    return found


def kind(thing: Any) -> str:
    """'bool', 'int', 'float' … of an array or tensor."""
    name = str(thing.dtype).removeprefix("torch.")
    return "int" if name.startswith(("int", "uint")) else name.rstrip("0123456789_")


def boundaries(values: NDArray[Any]) -> list[int]:
    """The places at which a row of values changes."""
    return [int(place) + 1 for place in np.flatnonzero(values[1:] != values[:-1])]
