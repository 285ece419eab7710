"""Eager attention, seen by its softmax: a product of three dimensions or more, softmax over the last, times values.

Nothing in a softmax says that it belongs to attention. What does is what becomes of it: the weights, perhaps
converted or dropped out on the way, are multiplied with values. Only then is the call recorded.
"""

import weakref
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.watching.call import Call, versions_of

SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax}
PASSES = {F.dropout, torch.dropout, Tensor.to, Tensor.type_as, Tensor.float, Tensor.contiguous, torch.nan_to_num}
PRODUCTS = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.einsum}


class Eager:
    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Any, Tensor]] = {}  # id of a tensor → it (weakly), and the weights it came from

    def notice(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Call | None:
        """What a torch function has to do with attention: a call, once the weights meet the values."""
        if func in SOFTMAX:
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if isinstance(out, Tensor) and out.dim() >= 3 and dim in (-1, out.dim() - 1):
                self._wait(out, out)
        elif self._waiting and func in PASSES:
            if args and (weights := self._known(args[0])) is not None and isinstance(out, Tensor):
                self._wait(out, weights)
        elif self._waiting and func in PRODUCTS:
            at = 1 if func is torch.einsum else 0
            if len(args) > at and (weights := self._known(args[at])) is not None:
                self._waiting.clear()
                return _call(weights.detach())
        return None

    def _wait(self, x: Tensor, weights: Tensor) -> None:
        self._waiting[id(x)] = weakref.ref(x), weights

    def _known(self, x: Any) -> Tensor | None:
        reference, weights = self._waiting.get(id(x), (None, None))
        return weights if reference is not None and reference() is x else None


def _call(weights: Tensor) -> Call:
    maps = weights.reshape(-1, *weights.shape[-3:]) if weights.dim() >= 4 else weights[None]
    return Call(
        name="",
        kernel="eager softmax",
        shape=tuple(maps.shape),  # type: ignore[arg-type]
        scale=1.0,
        maps=maps,
        versions=versions_of(maps),
    )
