"""Attention rollout (Abnar and Zuidema, 2020): how much of each input token reaches a token after all layers.

It is the product over the layers of ρ I + (1 − ρ) mean over heads of A, with the identity for the residual stream. The
row of one token is a vector that goes from the last layer to the first, a block of weights at a time.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.watching.attribution.token_streams import stream_names
from regard.watching.call import Call, full_precision
from regard.watching.weights.exact_weights import weight_blocks


def rollout_row(calls: Sequence[Call], query: int, residual: float) -> Float[Tensor, "batch keys"]:
    """Return one row of the rollout, with memory linear in the number of tokens."""
    _check(calls)
    batch, _, length, _ = calls[-1].shape
    if isinstance(query, bool) or not isinstance(query, int) or not -length <= query < length:
        raise ValueError(f"query must be the index of one of the {length} tokens, got {query!r}")
    r = torch.zeros(batch, length, device=calls[-1].like.device)
    r[:, query] = 1.0
    for call in reversed(calls):
        passed = torch.zeros_like(r)
        with full_precision(call):
            for block in weight_blocks(call):
                rows = r[block.batch, None, None, block.rows].to(block.weights.dtype)
                if bool(rows.any()):
                    part = (rows @ block.weights).sum((1, 2))
                    passed[block.batch, block.keys] += part.to(r.dtype) / call.shape[1]
        r = residual * r + (1 - residual) * passed
    return r


def rollout_matrix(calls: Sequence[Call], residual: float) -> Float[Tensor, "batch queries keys"]:
    """Return the rollout of all tokens, an S×S matrix for each batch item."""
    _check(calls)
    total: Tensor | None = None
    for call in calls:
        mean = torch.stack([call.weights(head=head) for head in range(call.shape[1])]).mean(0)
        mixed = residual * torch.eye(call.shape[2], device=mean.device) + (1 - residual) * mean
        total = mixed if total is None else mixed @ total
    assert total is not None
    return total


def _check(calls: Sequence[Call]) -> None:
    for call in calls:
        length, size = call.shape[2:]
        if length != size:
            raise ValueError(f"rollout needs self-attention, but call {call.name!r} has L={length} and S={size}")
    stream_names(calls, "rollout")
