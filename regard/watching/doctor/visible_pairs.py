"""Which pairs of query and key a call's masks show, decided from the masks alone, without computing weights.

A pair is hidden by the mask rule, by the boolean mask, or by a bias that is at least 1,000 below the largest bias of
its row: −inf, −10⁴, −10⁹ and the smallest float are all in use. A row of biases that are all so small hides nothing,
because softmax subtracts the maximum.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.masks.mask import VISIBLE
from regard.watching.call import Call
from regard.watching.doctor.arguments import ADDED
from regard.watching.doctor.subject import Subject

PAIRS_AT_ONCE = 1 << 22
BLOCK = 512  # keys per block for which a rule is asked

Pairs = Callable[[Int[Tensor, "rows"]], Bool[Tensor, "#batch rows keys"]]
"""Returns which pairs of the given queries with all keys are meant, for each item or for all."""


def has_masks(call: Call) -> bool:
    """Whether anything could hide a pair."""
    return call.mask is not None or call.boolean_mask is not None or call.bias is not None


def visible(call: Call, rows: Int[Tensor, "rows"]) -> Bool[Tensor, "#batch #heads #rows #keys"]:
    """Return which keys the given queries of every item and head see; sizes of 1 stand for all."""
    _, _, length, size = call.shape
    device = rows.device
    shown = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
    if call.mask is not None:
        b = torch.arange(call.mask.batch_size, device=device)[:, None, None, None]
        h = torch.arange(call.mask.head_count, device=device)[:, None, None]
        position, keys = (rows + size - length)[:, None], torch.arange(size, device=device)
        shown = shown & call.mask.visible(b, h, position, keys)
    if call.boolean_mask is not None:
        shown = shown & _rows(call.boolean_mask, rows, length)
    if call.bias is not None:
        bias = _rows(call.bias, rows, length)
        highest = bias.amax(-1, keepdim=True)
        shown = shown & (bias >= torch.where(highest.isneginf(), 0.0, highest + 0.999 * ADDED))
    return shown


def row_chunks(call: Call, rows: Int[Tensor, "rows"] | None = None) -> Iterator[Int[Tensor, "rows"]]:
    """Yield all queries, or the given ones, in chunks whose pairs fit in memory."""
    batch, _, length, size = call.shape
    masks = [x for x in (call.boolean_mask, call.bias) if x is not None]
    tables = max([call.mask.batch_size * call.mask.head_count if call.mask is not None else 1,
                  *(x.shape[0] * x.shape[1] for x in masks)])  # fmt: skip
    step = max(1, PAIRS_AT_ONCE // max(1, size * max(tables, batch if call.eager_weights is not None else 1)))
    rows = torch.arange(length, device=call.like.device) if rows is None else rows
    yield from rows.split(step)


def rows_that_see(subject: Subject, wrong: Pairs) -> Bool[Tensor, "batch queries"]:
    """Return the checked queries for which the masks show at least one of the wrong pairs, in any head."""
    call = subject.call
    seen = torch.zeros_like(subject.relevant)
    for rows in row_chunks(call):
        pairs = wrong(rows)
        if not bool(pairs.any()):
            continue
        if has_masks(call):
            shown = visible(call, rows)
            pairs = (pairs & (shown.any(1) if shown.shape[1] > 1 else shown[:, 0])).any(-1)
        else:
            pairs = pairs.any(-1)
        seen[:, rows] = pairs
    return seen & subject.relevant


def _rows(table: Tensor, rows: Int[Tensor, "rows"], length: int) -> Tensor:
    return table if table.shape[-2] == 1 and length > 1 else table[..., rows, :]


def some_key_is_visible(call: Call, rows: Int[Tensor, "rows"]) -> bool:
    """Whether the rule alone shows that all of these consecutive queries see a key; False if that is not clear."""
    if call.mask is None or call.boolean_mask is not None or call.bias is not None:
        return False
    *_, length, size = call.shape
    first = np.arange(0, size, BLOCK)
    last = np.minimum(first + BLOCK, size)
    q0, q1 = int(rows[0]) + size - length, int(rows[-1]) + 1 + size - length
    states = [call.mask.states(b, q0, q1, first, last) for b in range(call.mask.batch_size)]
    return all(bool((state == VISIBLE).any()) for state in states)
