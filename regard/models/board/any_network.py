"""Any network that maps planes to policy and value, in place of a `BoardNet`: checks of its output, and copies.

    network(planes (B, P, rows, columns)) → policy logits (B, columns), value (B, 1) or (B,) in [−1, 1], and optionally
                                            the predicted scores of the moves (B, columns) or (B, 1), or None

The results may be a tuple or an object with the attributes `policy`, `value` and, optionally, `score`.
"""

import copy
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from regard.models.board.network import BoardNet, BoardOutput

CONTRACT = "a board network maps planes (B, P, rows, columns) to policy logits (B, columns) and a value (B, 1) or (B,)"


def board_output(result: Any, planes: Tensor) -> BoardOutput:
    """Return the result of a network for these planes as a `BoardOutput`; raise an error that says what is missing.

    >>> import torch
    >>> board_output((torch.zeros(3, 7), torch.zeros(3)), torch.zeros(3, 2, 6, 7)).value.shape
    torch.Size([3, 1])
    """
    if isinstance(result, BoardOutput) and result.value.dim() == 2:
        return result
    if isinstance(result, tuple | list):
        parts = [*result, None, None][: max(3, len(result))]
    else:
        parts = [getattr(result, name, None) for name in ("policy", "value", "score")]
    if len(parts) != 3:
        raise ValueError(f"{CONTRACT}, and optionally a score; got {len(parts)} results")
    policy, value, score = parts
    count, columns = len(planes), planes.shape[-1]
    _check("policy", policy, [(count, columns)])
    _check("value", value, [(count, 1), (count,)])
    if score is not None:
        _check("score", score, [(count, columns), (count, 1)])
    return BoardOutput(policy, value.reshape(count, 1), score)


def _check(name: str, part: Any, shapes: list[tuple[int, ...]]) -> None:
    expected = " or ".join(map(str, shapes))
    if not isinstance(part, Tensor):
        missing = "nothing" if part is None else f"a {type(part).__name__}"
        raise TypeError(f"{CONTRACT}; expected a {name} of shape {expected}, got {missing}")
    if tuple(part.shape) not in shapes:
        raise ValueError(f"{CONTRACT}; expected a {name} of shape {expected}, got {tuple(part.shape)}")


def inference_copy(network: nn.Module | Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a module in eval mode, which further training does not change; other callables as they are.

    >>> inference_copy(BoardNet("tiny")).config.norm
    'none'
    """
    if isinstance(network, BoardNet):
        return network.for_inference()
    if isinstance(network, nn.Module):
        return copy.deepcopy(network).eval().requires_grad_(False)
    if not callable(network):
        raise TypeError(f"{CONTRACT}; got a {type(network).__name__}, which cannot be called")
    return network
