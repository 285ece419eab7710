"""Reader of eager attention: a softmax over the last dimension whose result is multiplied with values.

A softmax alone need not belong to attention. A call is recorded only when its result, possibly converted or after
dropout, becomes the left operand of a matrix product.
"""

import weakref
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.watching.call import Call
from regard.watching.call_inputs import tensor_versions

SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax}
PASS_THROUGH = {F.dropout, torch.dropout, Tensor.to, Tensor.type_as, Tensor.float, Tensor.contiguous, torch.nan_to_num}
PRODUCTS = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.einsum}


class EagerReader:
    """Follows softmax results until one of them is multiplied with values."""

    def __init__(self) -> None:
        # id of a tensor → weak reference to it, and the softmax result that it was made from
        self._candidates: dict[int, tuple[Any, Tensor]] = {}

    def read(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Call | None:
        """Process one torch function; return the call when the weights are multiplied with the values."""
        if func in SOFTMAX:
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if isinstance(out, Tensor) and out.dim() >= 3 and dim in (-1, out.dim() - 1):
                self._candidates[id(out)] = weakref.ref(out), out
        elif self._candidates and func in PASS_THROUGH:
            if args and (weights := self._weights_of(args[0])) is not None and isinstance(out, Tensor):
                self._candidates[id(out)] = weakref.ref(out), weights
        elif self._candidates and func in PRODUCTS:
            left = 1 if func is torch.einsum else 0
            if len(args) > left and (weights := self._weights_of(args[left])) is not None:
                self._candidates.clear()
                return _call(weights.detach())
        return None

    def _weights_of(self, x: Any) -> Tensor | None:
        reference, weights = self._candidates.get(id(x), (None, None))
        return weights if reference is not None and reference() is x else None


def _call(weights: Tensor) -> Call:
    weights = weights.reshape(-1, *weights.shape[-3:]) if weights.dim() >= 4 else weights[None]
    batch, heads, length, size = weights.shape
    versions = tensor_versions(weights)
    return Call("", "eager softmax", (batch, heads, length, size), 1.0, eager_weights=weights, versions=versions)
