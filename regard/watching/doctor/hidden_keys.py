"""Keys that should be visible and are not: empty rows, the query's own key, real keys, the keys of a cache."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.watching.call import Call
from regard.watching.doctor.arguments import ADDED
from regard.watching.doctor.findings import Finding
from regard.watching.doctor.subject import Subject, recorded
from regard.watching.doctor.visible_pairs import has_masks, row_chunks, some_key_is_visible, visible
from regard.watching.doctor.wrong_pairs import find_leak, same_keys


def find_empty_rows(subject: Subject) -> list[Finding]:
    """Return a finding if checked queries see no key, or only keys that a large negative number should hide."""
    empty, filled = empty_rows(subject)
    empty = empty & subject.relevant[:, None]
    filled = filled & subject.relevant[:, None]
    rows = empty | filled
    if not bool(rows.any()):
        return []
    b, head, query = (int(n) for n in rows.nonzero()[0])
    checked = int(subject.relevant.sum()) * rows.shape[1]
    count = int(rows.sum())
    message = f"{count} of {checked} queries see no key, for example query {query} of batch item {b}; "
    if bool(filled.any()):
        message += "a large negative number hides all keys equally, so that every key gets weight; "
    if count == checked:
        message += "the mask hides everything: check its dtype, and whether True means visible or ignored"
    else:
        message += "check that the mask leaves each query at least one key"
    return [Finding("empty rows", subject.call.name, head if rows.shape[1] > 1 else None, query, None, message)]


def empty_rows(subject: Subject) -> tuple[Bool[Tensor, "batch #heads queries"], Bool[Tensor, "batch #heads queries"]]:
    """Return the queries that see no key, and those whose keys are all hidden by a finite number."""
    call = subject.call
    batch, heads, length, _ = call.shape
    if not subject.has_weights:
        return call.statistics.empty, torch.zeros_like(call.statistics.empty)
    if call.eager_weights is not None:
        empty = torch.zeros(batch, heads, length, dtype=torch.bool, device=subject.device)
        for rows in row_chunks(call):
            empty[:, :, rows] = (call.eager_weights[:, :, rows] == 0).all(-1)
        return empty, torch.zeros_like(empty)
    masks = [x for x in (call.boolean_mask, call.bias) if x is not None]
    by_head = max([call.mask.head_count if call.mask is not None else 1, *(x.shape[1] for x in masks)]) > 1
    empty = torch.zeros(batch, heads if by_head else 1, length, dtype=torch.bool, device=subject.device)
    filled = torch.zeros_like(empty)
    if has_masks(call):
        for rows in row_chunks(call):
            if not some_key_is_visible(call, rows):
                empty[:, :, rows] = ~visible(call, rows).any(-1)
            if call.bias is not None:
                bias = call.bias if call.bias.shape[-2] == 1 else call.bias[..., rows, :]
                highest = bias.amax(-1)
                filled[:, :, rows] = (highest <= ADDED) & highest.isfinite()
    return empty, filled


def find_hidden_keys(subject: Subject) -> list[Finding]:
    """Return a finding if a query does not see its own key, or in cross-attention, if no query sees a real key."""
    if subject.cross:
        return _find_unseen_source(subject)
    assert subject.positions is not None
    call, relevant = subject.call, subject.relevant
    own = subject.positions.to(subject.device)
    hidden = ~_sees(call, own) & ~empty_rows(subject)[0].all(1) & relevant
    if not bool(hidden.any()):
        return []
    b, query = (int(n) for n in hidden.nonzero()[0])
    key = int(own[b if len(own) > 1 else 0, query])
    message = f"query {query} of batch item {b} does not see its own key {key}, "
    everywhere = bool((hidden | ~relevant | (own == 0)).all())
    if everywhere:
        message += "and no other query does: the mask is shifted by one"
        return [Finding("own token hidden", call.name, None, query, key, message)]
    message += f"and {int(hidden.sum()) - 1} other real tokens are hidden from themselves; "
    message += _other_item(subject) or "check that the mask marks the real tokens of each batch item"
    return [Finding("real tokens hidden", call.name, None, query, key, message)]


def _sees(call: Call, keys: Int[Tensor, "#batch queries"]) -> Bool[Tensor, "#batch queries"]:
    """Return whether each query sees one key, given for each query, in any head."""
    batch, _, length, size = call.shape
    keys = keys.clamp(0, size - 1)
    if call.eager_weights is not None:
        index = keys[:, None, :, None].expand(batch, call.shape[1], length, 1)
        return (call.eager_weights.gather(-1, index)[..., 0] != 0).any(1)
    seen = torch.ones(1, 1, length, dtype=torch.bool, device=keys.device)
    rows = torch.arange(length, device=keys.device)
    if call.mask is not None:
        b = torch.arange(call.mask.batch_size, device=keys.device)[:, None, None]
        h = torch.arange(call.mask.head_count, device=keys.device)[:, None]
        seen = seen & call.mask.visible(b, h, rows + size - length, keys[:, None])
    if call.boolean_mask is not None:
        seen = seen & _at(call.boolean_mask, keys, size)
    if call.bias is not None:
        bias = call.bias
        own = _at(bias, keys, size)
        seen = seen & ~own.isneginf() & (own >= bias.amax(-1) + 0.999 * ADDED)
    return seen.any(1)


def _at(table: Tensor, keys: Int[Tensor, "#batch queries"], size: int) -> Tensor:
    """Return the entry of each row of a table (B, H, L, S) at the row's key."""
    batch, heads = max(table.shape[0], len(keys)), table.shape[1]
    index = keys[:, None, :, None].expand(batch, heads, -1, 1)
    return table.expand(batch, heads, keys.shape[1], size).gather(-1, index)[..., 0]


def _keys_seen(subject: Subject) -> Bool[Tensor, "batch keys"]:
    """Return which keys at least one checked query sees."""
    call = subject.call
    seen = torch.zeros(call.shape[0], call.shape[3], dtype=torch.bool, device=subject.device)
    for rows in row_chunks(call):
        shown = visible(call, rows) if call.eager_weights is None else call.eager_weights[:, :, rows] != 0
        seen |= (shown.any(1) & subject.relevant[:, rows, None]).any(1)
    return seen


def _find_unseen_source(subject: Subject) -> list[Finding]:
    if subject.real is None or (subject.call.eager_weights is None and not has_masks(subject.call)):
        return []
    hidden = subject.real & ~_keys_seen(subject)
    hidden &= ~empty_rows(subject)[0].all(1).all(1)[:, None]  # reported as empty rows
    if not bool(hidden.any()):
        return []
    b, key = (int(n) for n in hidden.nonzero()[0])
    message = f"no query of batch item {b} sees key {key}, which is real; {int(hidden.sum())} real keys are hidden; "
    message += _other_item(subject) or "check that the mask marks the real tokens of each batch item"
    return [Finding("real tokens hidden", subject.call.name, None, None, key, message)]


def _other_item(subject: Subject) -> str:
    """Return a hint if the mask of each item that differs from its padding fits another item."""
    real = subject.real
    if real is None or len(real) < 2:
        return ""
    seen = _keys_seen(subject)
    for b in range(len(real)):
        if not torch.equal(seen[b], real[b]):
            for other in range(len(real)):
                if torch.equal(seen[b], real[other]):
                    return f"the mask of item {b} fits item {other}: check the order of the batch"
    return ""


def find_top_left(subject: Subject) -> list[Finding] | str:
    """Return a finding if a causal mask is aligned at the first key although a cache has keys before the queries."""
    call = subject.call
    _, _, length, size = call.shape
    ends = torch.tensor([0, length - 1], device=subject.device)
    if call.eager_weights is None:
        if not has_masks(call):
            return []
        shown = visible(call, ends).expand(-1, -1, 2, size)
    else:
        shown = call.eager_weights[:, :, ends] != 0
    first, last = shown[:, :, 0], shown[:, :, 1]
    if bool(last[..., length:].any()) or bool(first[..., 1:].any()) or not bool(last[..., length - 1].any()):
        return []
    contents = [x for x in (recorded(call, "k"), recorded(call, "v")) if x is not None]
    if not contents:
        return "whether the cache holds tokens is not known: its keys and values are not recorded"
    filled = (contents[0][..., length:, :] != 0).any(-1).any(1)  # (B, S − L)
    if subject.real is not None:
        filled &= subject.real[:, length:]
    if not bool(filled.any()):
        return []
    message = f"{length} queries over {size} keys: the last query sees the first {length} keys only, and the tokens "
    message += "after them are hidden; a causal mask for a cache is aligned at the last key (is_causal=True of torch's "
    message += "scaled_dot_product_attention is aligned at the first: pass a mask, or no mask for a single query)"
    return [Finding("top-left causal mask", call.name, None, length - 1, length - 1, message)]


def find_empty_cache(subject: Subject) -> list[Finding]:
    """Return a finding if queries put weight on keys of a cache that are all zero: not written yet."""
    call = subject.call
    k = recorded(call, "k")
    if k is None or getattr(subject.module, "add_zero_attn", False):
        return []
    zero = (k == 0).all(-1).all(1)  # (B, S)
    if subject.real is not None:
        zero &= subject.real
    if not bool(zero.any()) or bool(zero.all()):
        return []
    leak = find_leak(subject, same_keys(zero), same_keys(~zero))
    if leak is None:
        return []
    message = (
        f"query {leak.query} of batch item {leak.batch} puts {leak.weight:.3f} on key {leak.key}, which is all zero; "
    )
    message += f"{leak.share:.0%} of the weight is on such keys; hide the part of the cache that is not written yet"
    return [Finding("attends to an empty cache", call.name, leak.head, leak.query, leak.key, message)]
