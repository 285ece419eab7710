"""Reader of `torch.nn.attention.flex_attention`, whose masks and biases are Python functions of the indices."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.watching.call import Call
from regard.watching.call_inputs import ScoreFunction

MODULE = "torch.nn.attention.flex_attention"
_operators: list[Any] = []  # torch's operator, while it is replaced


def report_calls(report: Callable[[tuple[Any, ...], dict[str, Any], Tensor], Tensor]) -> None:
    """Replace the output of each call of flex_attention by report(args, kwargs, output).

    No TorchFunctionMode sees its operator.
    """
    module: Any = sys.modules.get(MODULE)
    if module is None or not hasattr(module, "flex_attention_hop"):
        return
    operator = module.flex_attention_hop
    _operators.append(operator)

    def reported(*args: Any, **kwargs: Any) -> Any:
        out = operator(*args, **kwargs)
        return report(args, kwargs, out[0]), *out[1:]

    module.flex_attention_hop = reported


def report_no_calls() -> None:
    """Undo `report_calls`."""
    if _operators:
        sys.modules[MODULE].flex_attention_hop = _operators.pop()  # type: ignore[attr-defined]


def from_flex_attention(
    name: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    *_: Any,
    output: Tensor | None = None,
    **__: Any,
) -> Call:
    """Read a call: the last element of the block mask is the function that says which pairs are visible."""
    shape = query.shape[0], query.shape[1], query.shape[2], key.shape[2]
    q, k, v = (x.expand(shape[0], -1, -1, -1) for x in (query, key, value))
    function = _score_function(score_mod, block_mask[-1])
    return Call(name, "flex_attention", shape, float(scale), q, k, v, output, score_function=function)


def _score_function(score_mod: Callable[..., Tensor], mask_mod: Callable[..., Tensor]) -> ScoreFunction:
    """Return a function of scores and index tensors. The two given functions take one score and its four indices."""

    def change(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.where(mask_mod(b, h, i, j), score_mod(score, b, h, i, j), float("-inf"))

    def change_all(scores: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        function: Callable[..., Tensor] = change
        if b.dim() == 4:  # a block: every combination of batch items, heads, queries and keys
            for mapped in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
                function = torch.vmap(function, in_dims=(0, *mapped))
            return function(scores, b.flatten(), h.flatten(), i.flatten(), j)
        indices = (x.expand(scores.shape).flatten() for x in (b, h, i, j))
        return torch.vmap(function)(scores.flatten(), *indices).view(scores.shape)

    return change_all
