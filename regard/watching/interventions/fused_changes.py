"""The output of a fused attention call whose weights are edited, without an L×S matrix.

Multiplying the weights of keys K by α and renormalizing adds log α to their scores. The scores of queries q and keys k
with one column more each,

    scale · (q·k + c_i · t_j)        c_i = 1 for the edited rows, else 0        t_j = log α / scale for j in K, else 0

are those of one fused call. It takes as long as the unedited call, and loses no digits where nearly all the weight of a
row is on K, as the difference of the output and the weighted values of K would.

| edited | computed by |
|---|---|
| few rows | the call as it is, then the rows again from their scores over all keys |
| many rows | one fused call, with a column more for each edit |
| replaced weights; scores changed by a function; softcap | the rows again, a block at a time |

Everything is differentiable. Dropout is applied to the edited weights, as eager attention would.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend_function import BiasLike, MaskLike, attend, attend_with_lse
from regard.attention.kernels.materialized_weights import grouped_matmul
from regard.attention.kernels.private_torch_operators import in_func_transform
from regard.watching.call import Call
from regard.watching.weights.row_scores import row_scores, take
from regard.watching.weights.weight_edits import Index, Rows, Scale, edited_rows

FEW_ROWS = 8  # rows are computed again if they are less than one in this many
SCORES_AT_ONCE = 1 << 22

Output = Float[Tensor, "batch heads queries d_v"]


def edited_output(call: Call, base: Callable[[], Output]) -> Output:
    """Return the output of a call with its edits; `base` computes it without edits."""
    length = call.shape[2]
    scales = [edit for edit in call.edits if isinstance(edit, Scale)]
    others = [edit.rows for edit in call.edits if not isinstance(edit, Scale)]
    many = [edit for edit in scales if _count(edit.rows, length) * FEW_ROWS >= length > FEW_ROWS]
    if not call.edits:
        return base()
    if many and not (call.softcap or call.score_function or in_func_transform() or call.factor == 0):
        out, again = _by_columns(call, scales)
        rest = [*others, *([] if again is None else [Rows(queries=again)])]
    else:
        out, rest = base(), [edit.rows for edit in call.edits]
    if rest:
        b, h, i = _union(call, rest)
        out = _recompute(call, out, b, h, i)
    return out


def _attention(call: Call, q: Tensor, k: Tensor, v: Tensor, *, dropout: float, width: int) -> Output:
    """Return attention with the scale, masks, biases and sinks of a call, without its edits.

    width   number of columns of the output that the sinks make smaller; those after it are as without sinks
    """
    mask, bias = _mask_and_bias(call)
    if call.sinks is None:
        return attend(q, k, v, mask, bias=bias, scale=call.factor, dropout=dropout)
    out, lse = attend_with_lse(q, k, v, mask, bias=bias, scale=call.factor)
    if dropout:
        out = attend(q, k, v, mask, bias=bias, scale=call.factor, dropout=dropout)
    share = torch.sigmoid(lse - call.sinks)[..., None].to(out.dtype)
    return out * share if width == out.shape[-1] else torch.cat([out[..., :width] * share, out[..., width:]], -1)


def unedited_output(call: Call) -> Output:
    """Return the output of a call without its edits, from its queries, keys and values."""
    if not (call.softcap or call.score_function):
        return _attention(call, call.q, call.k, call.v, dropout=call.dropout, width=call.v.shape[-1])
    edits, call.edits = call.edits, ()
    b, h, i = Rows().indices(call)
    out = _recompute(call, call.v.new_zeros(*call.shape[:3], call.v.shape[-1]), b, h, i)
    call.edits = edits
    return out


def edited_lse(call: Call) -> Float[Tensor, "batch heads queries"]:
    """Return the log-sum-exp of each row of scores after edits that multiply weights; replaced weights have none."""
    if not all(isinstance(edit, Scale) for edit in call.edits):
        raise NotImplementedError(
            f"attend_with_lse in {call.name or 'the model'!r}: replaced weights have no log-sum-exp; change outputs "
            "instead"
        )
    if not call.edits:
        mask, bias = _mask_and_bias(call)
        return attend_with_lse(call.q, call.k, call.v, mask, bias=bias, scale=call.factor).lse
    b, h, i = Rows().indices(call)
    rows = []
    for queries in i.split(max(1, SCORES_AT_ONCE // max(1, len(b) * len(h) * call.shape[3]))):
        scores = row_scores(call, b, h, queries)
        for edit in call.edits:
            scores = edit.on_scores(call, scores, (b, h, queries))
        rows.append(scores.logsumexp(-1))
    return torch.cat(rows, -1)


def _by_columns(call: Call, scales: list[Scale]) -> tuple[Output, Index | None]:
    """Return the output after edits that multiply weights, and the queries that must be computed again.

    In the values the column of an edit with α = 0 is 1 for its keys. In the output it is their weight, 0 except for
    rows that see no other key.
    """
    q, k, v, size = call.q, call.k, call.v, call.shape[3]
    width, half = v.shape[-1], q.dtype.itemsize == 2
    of_queries: list[Tensor] = []
    of_keys: list[Tensor] = []
    of_values: list[Tensor] = []
    hidden: list[Scale | None] = []
    for edit in scales:
        rows = edit.rows.mask(call).to(q.dtype)
        large = min(1e30, torch.finfo(q.dtype).max * min(abs(call.factor), 1.0) / 4)
        term = torch.zeros(size, device=k.device, dtype=torch.float64)
        term[edit.keys] = (math.log(edit.factor) if edit.factor else -large) / call.factor
        parts = [term.to(k.dtype)]
        if half and edit.factor:  # log α in two parts, because one would be rounded
            parts.append((term - parts[0].double()).to(k.dtype))
        for part in parts:
            of_queries.append(rows)
            of_keys.append(part)
            hides = edit.factor == 0
            of_values.append(torch.zeros_like(part).index_fill_(0, edit.keys, float(hides)))
            hidden.append(edit if hides else None)
    columns = len(of_queries)
    q = torch.cat([q, torch.stack([x.expand(call.shape[:3]) for x in of_queries], -1)], -1)
    k, v = (
        torch.cat([x, torch.stack(terms, -1).expand(*x.shape[:3], columns)], -1)
        for x, terms in ((k, of_keys), (v, of_values))
    )
    out = _attention(call, q, k, v, dropout=call.dropout, width=width)
    weights_on_hidden = out.detach()[..., width:]
    if call.dropout and any(hidden):
        with torch.no_grad():
            weights_on_hidden = _attention(call, q, k, v, dropout=0.0, width=width)[..., width:]
    emptied = torch.zeros(call.shape[2], dtype=torch.bool, device=q.device)
    for column, hiding in enumerate(hidden):
        if hiding is not None:
            emptied |= ((weights_on_hidden[..., column] > 0) & hiding.rows.mask(call)).any(0).any(0)
    return out[..., :width], emptied.nonzero()[:, 0] if bool(emptied.any()) else None


def _recompute(call: Call, out: Output, b: Index, h: Index, i: Index) -> Output:
    """Return the output with the rows of batch items b, heads h and queries i computed from their edited weights."""
    if not (len(b) and len(h) and len(i)):
        return out
    group = call.shape[1] // call.v.shape[1]
    values = take(call.v, b, 0)
    all_heads = len(h) == call.shape[1]
    values = values if all_heads else values.index_select(1, h // group)
    rows_at_once = max(1, SCORES_AT_ONCE // (len(b) * len(h) * max(1, call.shape[3])))
    blocks = []
    for rows in i.split(rows_at_once):
        weights = edited_rows(call, b, h, rows)
        weights = F.dropout(weights, call.dropout) if call.dropout else weights
        blocks.append(grouped_matmul(weights, values.to(weights.dtype)).to(out.dtype))
    return out.index_put((b[:, None, None], h[:, None], i), torch.cat(blocks, 2))


def _union(call: Call, rows: list[Rows]) -> tuple[Index, Index, Index]:
    """Return batch items, heads and queries whose combinations contain all the given rows."""
    together = []
    for axis in ("batch", "heads", "queries"):
        parts = [getattr(x, axis) for x in rows]
        together.append(None if any(part is None for part in parts) else torch.cat(parts).unique())
    return Rows(*together).indices(call)


def _count(rows: Rows, length: int) -> int:
    return length if rows.queries is None else len(rows.queries)


def _mask_and_bias(call: Call) -> tuple[MaskLike | None, BiasLike | None]:
    """Return mask and bias of a call as `attend` takes them."""
    mask: MaskLike | None = call.mask
    if call.boolean_mask is not None:
        mask = call.boolean_mask if call.mask is None else call.mask & call.boolean_mask
    return mask, call.bias if call.bias is not None else call.bias_rule
