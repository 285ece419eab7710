"""Scores of chosen rows of a call over all keys, differentiable where the tensors of the call are."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.watching.call_inputs import CallInputs
from regard.watching.weights.score_terms import apply_terms


def row_scores(
    call: CallInputs,
    b: Int[Tensor, "batch"],
    h: Int[Tensor, "heads"],
    i: Int[Tensor, "queries"],
    keys: Int[Tensor, "keys"] | None = None,
) -> Float[Tensor, "batch heads queries keys"]:
    """Return the scores of the batch items b, heads h and queries i over all keys, or over the given ones."""
    dtype = score_type(call)
    q = take(take(take(call.q, b, 0), h, 1), i, 2).to(dtype)
    k = take(take(call.k, b, 0), h // (call.shape[1] // call.k.shape[1]), 1)
    if keys is None:
        keys = torch.arange(call.shape[3], device=i.device)
    else:
        k = k.index_select(2, keys)
    scores = (q * call.factor) @ k.to(dtype).transpose(-1, -2)
    return apply_terms(call, scores, (b[:, None, None, None], h[:, None, None], i[:, None], keys))


def row_sinks(
    call: CallInputs, b: Int[Tensor, "batch"], h: Int[Tensor, "heads"], i: Int[Tensor, "queries"]
) -> Float[Tensor, "batch heads queries"] | None:
    """Return the logits that belong to no key of the chosen rows; None if the call has no sinks."""
    if call.sinks is None:
        return None
    return call.sinks.expand(call.shape[:3])[b[:, None, None], h[:, None], i].to(score_type(call))


def score_type(call: CallInputs) -> torch.dtype:
    """Return the precision of the scores: that of the queries, at least float32."""
    return torch.float64 if call.q.dtype == torch.float64 else torch.float32


def take(x: Tensor, index: Int[Tensor, "count"], dim: int) -> Tensor:
    """Return x at the indices; on the CPU x itself if there are as many as x has entries and they are in order.

    On other devices the indices are not read, because the host would have to wait for them.
    """
    if index.is_cpu and len(index) == x.shape[dim] and bool((index == torch.arange(len(index))).all()):
        return x
    return x.index_select(dim, index)
