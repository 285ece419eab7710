"""Relevance of tokens: gradient × attention, propagated through the layers (Chefer et al., 2021).

For one target y, each layer has the matrix Ā = mean over heads of max(0, A ⊙ ∂y/∂A), and the relevance of the tokens
for one another is

    R = (I + Ā_n) … (I + Ā_2) (I + Ā_1)

Only the row of the token from which the target is read is needed: a vector r that goes from the last layer to the
first, the way the backward pass goes,

    r ← r + r Ā_l               with ∂y/∂A_ij = (∂y/∂o_i) · v_j

so that the weights, their gradients and the product exist for a block of rows only, and nothing is S×S.

In a model with cross-attention, r has a part for the tokens of the decoder and one for the source, to which
cross-attention passes relevance on.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.watching.attribution.output_gradients import visit_gradients
from regard.watching.attribution.token_streams import stream_names
from regard.watching.call import Call, _values_of_each_head
from regard.watching.weights.exact_weights import weight_blocks


def token_relevance(
    calls: Sequence[Call], target: Tensor, *, query: int | None = None
) -> dict[str, Float[Tensor, "batch keys"]]:
    """Return the relevance of every token for the target, by stream of tokens: "" or "source"; see `Recording`."""
    streams = stream_names(calls, "relevance")
    relevance: dict[str, Tensor] = {}
    for call, (own, keys) in zip(calls, streams, strict=True):
        for stream, size in ((own, call.shape[2]), (keys, call.shape[3])):
            relevance.setdefault(stream, torch.zeros(call.shape[0], size, device=call.like.device))
    if any(call.dropout for call in calls):
        raise ValueError("relevance needs weights without dropout: run model.eval() first")
    if query is not None:
        _check_query(query, calls, relevance)
    started = False

    def visit(number: int, gradient: Tensor) -> None:
        nonlocal started
        call, (own, keys) = calls[number], streams[number]
        if not started and own == "":
            relevance[own] = _start(gradient, query)
            started = True
        relevance[keys] = relevance[keys] + _passed_on(call, relevance[own], gradient)

    visit_gradients(calls, target, "relevance", visit)
    if not started:
        raise ValueError("relevance: the target does not depend on any recorded call of attention")
    return relevance


def _check_query(query: int, calls: Sequence[Call], relevance: dict[str, Tensor]) -> None:
    size = relevance[""].shape[1]
    if isinstance(query, bool) or not isinstance(query, int):
        raise TypeError(f"query must be the index of a token, got {query!r}")
    if not -size <= query < size:
        raise ValueError(f"query: token {query} is out of range, there are {size}")


def _start(gradient: Float[Tensor, "batch heads queries last"], query: int | None) -> Float[Tensor, "batch queries"]:
    """Return 1 for the token from which the target is read; divided among several that the gradient reaches."""
    batch, _, length, _ = gradient.shape
    if query is not None:
        start = gradient.new_zeros(batch, length, dtype=torch.float32)
        start[:, query] = 1.0
        return start
    reached = (gradient != 0).any(-1).any(1).float()
    return reached / reached.sum(-1, keepdim=True).clamp_min(1.0)


def _passed_on(
    call: Call, r: Float[Tensor, "batch queries"], gradient: Float[Tensor, "batch heads queries last"]
) -> Float[Tensor, "batch keys"]:
    """Return r Ā of one call, a block of weights at a time."""
    result = r.new_zeros(call.shape[0], call.shape[3])
    values = None if call.eager_weights is not None else _values_of_each_head(call)
    for block in weight_blocks(call):
        rows = r[block.batch, None, None, block.rows].to(block.weights.dtype)
        if not bool(rows.any()):
            continue
        part = gradient[block.batch, block.heads, block.rows].to(block.weights.dtype)
        if values is None:
            part = part[..., block.keys]
        else:
            part = part @ values[block.batch, block.heads, block.keys].to(part.dtype).transpose(-1, -2)
        product = part.mul_(block.weights).clamp_min_(0) if values is not None else (part * block.weights).clamp_min(0)
        result[block.batch, block.keys] += (rows @ product).sum((1, 2)).to(result.dtype) / call.shape[1]
    return result
