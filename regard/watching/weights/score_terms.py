"""What is applied to the scores of a call after the product of queries and keys: softcap, biases and masks.

s = scale · q·k        s ← softcap(s) + bias + bias rule        s ← score function(s)        s ← −inf where masked
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.kernels.changed_scores.score_change import ScoreChange
from regard.watching.call_inputs import CallInputs

Index = slice | Int[Tensor, "..."]


def apply_terms(
    call: CallInputs, scores: Float[Tensor, "*pairs"], at: tuple[Index, Index, Index, Index], *, rule: bool = True
) -> Float[Tensor, "*pairs"]:
    """Return the scores after all terms, changed in place where no gradient needs the earlier ones.

    at      batch items, heads, queries and keys of the scores: four slices for a block (b, h, rows, keys), or four
            tensors that broadcast to the shape of the scores
    rule    whether to apply `call.mask`; the caller has applied it otherwise
    """
    if call.softcap and scores.requires_grad:
        scores = ScoreChange(call.softcap).cap(scores)
    elif call.softcap:
        scores = scores.div_(call.softcap).tanh_().mul_(call.softcap)
    if call.bias is not None:
        scores += _entries(call.bias, at)
    needs_indices = call.bias_rule is not None or call.score_function is not None or (rule and call.mask is not None)
    if needs_indices:
        b, h, i, j = _indices(at, scores.device)
        position = i + (call.shape[3] - call.shape[2])
        if call.bias_rule is not None:
            scores += call.bias_rule.values(h, position - j)
        if call.score_function is not None:
            hidden = scores.isneginf()  # the function receives finite numbers: from −inf it could return NaN, or +inf
            changed = call.score_function(scores.masked_fill(hidden, 0.0), b, h, i, j)
            scores = changed.to(scores.dtype).expand(scores.shape).masked_fill(hidden, float("-inf"))
        if rule and call.mask is not None:
            scores = scores.masked_fill_(~call.mask.visible(b, h, position, j), float("-inf"))
    if call.boolean_mask is not None:
        scores = scores.masked_fill_(~_entries(call.boolean_mask, at), float("-inf"))
    return scores


def has_tables(call: CallInputs) -> bool:
    """Whether a term other than a rule mask may hide keys."""
    return call.bias is not None or call.boolean_mask is not None or call.score_function is not None


def _entries(table: Tensor, at: tuple[Index, ...]) -> Tensor:
    """Return the entries of a table that broadcasts to (B, H, L, S)."""
    if isinstance(at[0], slice):
        return table[tuple(index if size > 1 else slice(None) for index, size in zip(at, table.shape, strict=True))]
    return table[tuple(index if size > 1 else 0 for index, size in zip(at, table.shape, strict=True))]


def _indices(at: tuple[Index, ...], device: torch.device) -> list[Tensor]:
    """Return the indices as tensors that broadcast to the shape of the scores."""
    return [
        torch.arange(index.start, index.stop, device=device).view(-1, *[1] * (3 - axis))
        if isinstance(index, slice)
        else index
        for axis, index in enumerate(at)
    ]
