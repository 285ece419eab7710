"""Edits of the weights of a call: what `regard.intervene` changes, and `regard.watch` shows.

A call has a sequence of edits, applied in order to its rows of weights:

    Scale       w_j ← α w_j for the keys j in K, then the row is divided by 1 + (α − 1) Σ_K w_j, so that the row and its
                sink have the same sum as before; α = 0 hides the keys
    Replace     rows are replaced by given ones

On scores, `Scale` adds log α to those of K. This is exact also if nearly all the weight of a row is on K, so it is done
until the first `Replace`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.kernels.materialized_weights import softmax_rows
from regard.watching.call_inputs import CallInputs
from regard.watching.weights.row_scores import row_scores, row_sinks

Index = Int[Tensor, "_"]
RowWeights = Callable[[Index, Index, Index], Float[Tensor, "_ _ _ _"]]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a call: the combinations of batch items, heads and queries, each in ascending order; None = all."""

    batch: Index | None = None
    heads: Index | None = None
    queries: Index | None = None

    def indices(self, call: CallInputs) -> tuple[Index, Index, Index]:
        """Return the indices of the batch items, heads and queries."""
        chosen = (self.batch, self.heads, self.queries)
        device = call.like.device
        b, h, i = (torch.arange(n, device=device) if x is None else x for n, x in zip(call.shape, chosen, strict=False))
        return b, h, i

    def mask(self, call: CallInputs, shape: Sequence[int] | None = None) -> Bool[Tensor, "#batch #heads #queries"]:
        """Return whether a row is chosen, with size 1 in dimensions of which all are.

        shape   sizes of the dimensions; default: B, H, L
        """
        mask = torch.ones(1, 1, 1, dtype=torch.bool, device=call.like.device)
        for axis, chosen in enumerate((self.batch, self.heads, self.queries)):
            if chosen is not None:
                size = (shape or call.shape)[axis]
                part = torch.zeros(size, dtype=torch.bool, device=mask.device).index_fill_(0, chosen, True)
                mask = mask & part.view([-1 if axis == a else 1 for a in range(3)])
        return mask

    def change(self, x: Tensor, at: tuple[Index, Index, Index], change: Callable[..., Tensor]) -> Tensor:
        """Return x (b, h, i, …), whose rows are at these indices, with change(rows, b, h, i) for the chosen rows."""
        chosen = (self.batch, self.heads, self.queries)
        if all(own is None for own in chosen):
            return change(x, *at)
        b, h, i = (
            torch.arange(len(index), device=index.device) if own is None else torch.isin(index, own).nonzero()[:, 0]
            for own, index in zip(chosen, at, strict=True)
        )
        if not (len(b) and len(h) and len(i)):
            return x
        places = b[:, None, None], h[:, None], i
        return x.index_put(places, change(x[places], at[0][b], at[1][h], at[2][i]).to(x.dtype))


@dataclass(frozen=True, eq=False)
class Scale:
    """Multiply the weights of rows on some keys by a factor, and renormalize the rows."""

    rows: Rows
    keys: Index
    factor: float
    empty: Literal["error", "zero"] = "error"

    def on_scores(self, call: CallInputs, scores: Tensor, at: tuple[Index, Index, Index]) -> Tensor:
        def change(scores: Tensor, *rows: Index) -> Tensor:
            term = scores.new_zeros(scores.shape[-1])
            term[self.keys] = math.log(self.factor) if self.factor else -math.inf
            changed = scores + term
            if not self.factor:
                limit = _hidden_below(call)
                emptied = (changed.amax(-1) <= limit) & (scores.amax(-1) > limit)
                changed = self._check(call, emptied, rows, lambda: changed.masked_fill(emptied[..., None], -math.inf))
            return changed

        return self.rows.change(scores, at, change)

    def on_weights(self, call: CallInputs, weights: Tensor, at: tuple[Index, Index, Index]) -> Tensor:
        def change(w: Tensor, *rows: Index) -> Tensor:
            factors = w.new_ones(w.shape[-1])
            factors[self.keys] = self.factor
            scaled = w * factors
            total, tolerance = w.sum(-1, keepdim=True), 2e-2 if w.dtype.itemsize == 2 else 1e-4
            no_key = (1 - total).masked_fill(1 - total < tolerance, 0.0)  # the share of a sink, apart from rounding
            left = scaled.sum(-1, keepdim=True)
            emptied = (left == 0) & (total > 0)
            result = scaled / (left + no_key).masked_fill((left == 0) & (no_key == 0), 1.0)
            # A row without a sink has the same sum as before, also if that is not exactly 1.
            result = torch.where(no_key > 0, result, result * total)
            return self._check(call, emptied[..., 0], rows, lambda: result) if not self.factor else result

        return self.rows.change(weights, at, change)

    def _check(
        self, call: CallInputs, emptied: Bool[Tensor, "b h i"], rows: tuple[Index, ...], result: Callable[[], Tensor]
    ) -> Tensor:
        if self.empty == "error" and bool(emptied.any()):
            b, h, i = (int(index[n]) for index, n in zip(rows, emptied.nonzero()[0], strict=True))
            raise ValueError(
                f"the intervention hides every key that query {i} of head {h} sees in {call.name or 'the model'!r} "
                f"(batch item {b}; {int(emptied.sum())} such row{'s' * (int(emptied.sum()) > 1)}); leave these queries "
                "out with queries=…, keep a visible key, or pass empty='zero' for weights and output of 0"
            )
        return result()


@dataclass(frozen=True, eq=False)
class Replace:
    """Replace rows of weights by those that a function returns for batch items, heads and queries."""

    rows: Rows
    weights: RowWeights

    def on_weights(self, call: CallInputs, weights: Tensor, at: tuple[Index, Index, Index]) -> Tensor:
        return self.rows.change(weights, at, lambda _, b, h, i: self.weights(b, h, i))


WeightEdit = Scale | Replace


def edited_rows(call: CallInputs, b: Index, h: Index, i: Index) -> Float[Tensor, "batch heads queries keys"]:
    """Return the weights of the batch items b, heads h and queries i over all keys, after the edits of the call.

    Differentiable where the tensors of the call are.
    """
    edits: list[Any] = list(call.edits)
    scores = row_scores(call, b, h, i)
    while edits and isinstance(edits[0], Scale):
        scores = edits.pop(0).on_scores(call, scores, (b, h, i))
    weights, lse = softmax_rows(scores)
    sinks = row_sinks(call, b, h, i)
    if sinks is not None:
        weights = weights * torch.sigmoid(lse - sinks)[..., None]
    return apply_edits(call, weights, edits, (b, h, i))


def apply_edits(
    call: CallInputs, weights: Tensor, edits: list[WeightEdit], at: tuple[Index, Index, Index]
) -> Float[Tensor, "batch heads queries keys"]:
    """Return rows of weights, which are at the given indices, after edits."""
    for edit in edits:
        weights = edit.on_weights(call, weights, at)
    return weights


def _hidden_below(call: CallInputs) -> float:
    """Return the score up to which a key counts as hidden: models write the smallest number for −inf."""
    return -math.inf if call.bias is None else torch.finfo(call.bias.dtype).min / 2
