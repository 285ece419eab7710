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

from regard.attention.masks.mask import HIDDEN, VISIBLE, States
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


def visible(
    call: Call, rows: Int[Tensor, "rows"], span: tuple[int, int] | None = None
) -> Bool[Tensor, "#batch #heads #rows #keys"]:
    """Return which keys the given queries of every item and head see; sizes of 1 stand for all.

    span    first key, and the key after the last; all keys if None
    """
    _, _, length, size = call.shape
    device = rows.device
    first, last = span or (0, size)
    shown = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
    if call.mask is not None:
        b = torch.arange(call.mask.batch_size, device=device)[:, None, None, None]
        h = torch.arange(call.mask.head_count, device=device)[:, None, None]
        position, keys = (rows + size - length)[:, None], torch.arange(first, last, device=device)
        shown = shown & call.mask.visible(b, h, position, keys)
    if call.boolean_mask is not None:
        shown = shown & _columns(_rows(call.boolean_mask, rows, length), first, last)
    if call.bias is not None:
        bias = _rows(call.bias, rows, length)
        highest = bias.amax(-1, keepdim=True)
        bias = _columns(bias, first, last)
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
        first, last = _span_of_rule(call, rows)
        pairs = wrong(rows)[..., first:last]
        columns = pairs.any(0).any(0).nonzero()[:, 0]
        if len(columns) == 0:
            continue
        begin, end = int(columns[0]), int(columns[-1]) + 1
        pairs = pairs[..., begin:end]
        if has_masks(call):
            shown = visible(call, rows, (first + begin, first + end))
            pairs = pairs & (shown.any(1) if shown.shape[1] > 1 else shown[:, 0])
        seen[:, rows] = pairs.any(-1)
    return seen & subject.relevant


def _span_of_rule(call: Call, rows: Int[Tensor, "rows"]) -> tuple[int, int]:
    """Return the keys outside of which the rule hides everything from these consecutive queries."""
    states = _block_states(call, rows)
    if states is None:
        return 0, call.shape[3]
    blocks = np.flatnonzero((states != HIDDEN).any(0))
    return (int(blocks[0]) * BLOCK, min(call.shape[3], int(blocks[-1] + 1) * BLOCK)) if len(blocks) else (0, 0)


def _block_states(call: Call, rows: Int[Tensor, "rows"]) -> States | None:
    """Return the states of the rule in blocks of keys, for each item that it distinguishes; None without a rule."""
    if call.mask is None or len(rows) == 0:
        return None
    *_, length, size = call.shape
    first = np.arange(0, size, BLOCK)
    last = np.minimum(first + BLOCK, size)
    q0, q1 = int(rows[0]) + size - length, int(rows[-1]) + 1 + size - length
    return np.stack([call.mask.states(b, q0, q1, first, last) for b in range(call.mask.batch_size)])


def _rows(table: Tensor, rows: Int[Tensor, "rows"], length: int) -> Tensor:
    return table if table.shape[-2] == 1 and length > 1 else table[..., rows, :]


def some_key_is_visible(call: Call, rows: Int[Tensor, "rows"]) -> bool:
    """Whether the rule alone shows that all of these consecutive queries see a key; False if that is not clear."""
    if call.boolean_mask is not None or call.bias is not None:
        return False
    states = _block_states(call, rows)
    return states is not None and bool((states == VISIBLE).any(1).all())


def _columns(table: Tensor, first: int, last: int) -> Tensor:
    return table if table.shape[-1] == 1 else table[..., first:last]
