"""Weight on pairs that should be hidden: padding, the future, other documents, keys outside of the window.

First the masks are examined: a pair that they hide has no weight. Only for queries that see a wrong key, weights are
computed: for all of them if they are few, otherwise for a sample.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.watching.doctor.findings import Finding
from regard.watching.doctor.subject import Subject
from regard.watching.doctor.visible_pairs import Pairs, rows_that_see

NOTABLE = 1e-6  # less weight on all wrong keys of a query may be a rounding error
WEIGHTS_AT_ONCE = 1 << 22
INVERTED = "the mask seems to hide what it should show: check whether True means visible or ignored"


@dataclass
class Leak:
    """The head and query with the largest weight on a wrong key, and means over the queries that see wrong keys."""

    weight: float
    batch: int
    head: int
    query: int
    key: int
    share: float  # mean weight on wrong keys
    heads: int  # number of heads with weight on wrong keys
    only_wrong: bool  # no query has weight on the keys that it should see
    offsets: tuple[int, int] | None  # smallest and largest number of the last wrong key, counted from the query


def find_leak(subject: Subject, wrong: Pairs, right: Pairs) -> Leak | None:
    """Return the weight on wrong pairs; `right` are pairs that every query should see, to recognise inverted masks."""
    call = subject.call
    rows_of_item = rows_that_see(subject, wrong) if not subject.is_eager else subject.relevant
    worst: Leak | None = None
    total, count, on_right, possible = 0.0, 0, 0.0, False
    heads: set[int] = set()
    offsets: set[int] = set()
    for b in range(call.shape[0]):
        rows = _sample(rows_of_item[b].nonzero()[:, 0], call.shape, subject.is_eager)
        for part in rows.split(max(1, WEIGHTS_AT_ONCE // (call.shape[1] * call.shape[3]))):
            weights = call.weights(batch=[b], queries=part.tolist())[0]  # (H, rows, S)
            pairs, good = wrong(part), right(part)
            pairs, good = pairs[b if len(pairs) > 1 else 0], good[b if len(good) > 1 else 0]
            on_wrong = weights * pairs
            mass = on_wrong.sum(-1)  # (H, rows)
            leaking = mass > NOTABLE
            if not bool(leaking.any()):
                continue
            heads.update(leaking.any(1).nonzero()[:, 0].tolist())
            any_head = leaking.any(0)
            total += float(mass[:, any_head].mean(0).sum())
            count += int(any_head.sum())
            has_right = any_head & good.any(-1)
            possible |= bool(has_right.any())
            on_right = max(
                on_right, float((weights * good)[:, has_right].sum(-1).amax()) if bool(has_right.any()) else 0.0
            )
            if subject.positions is not None:
                own = subject.positions[b if len(subject.positions) > 1 else 0].to(part.device)[part]
                last = call.shape[3] - 1 - (on_wrong.amax(0) > NOTABLE).flip(-1).int().argmax(-1)
                inside = any_head & (last < call.shape[3] - 1)  # at the last key the mask's edge is not visible
                offsets.update((last - own)[inside].tolist())
            largest = float(on_wrong.max())
            if worst is None or largest > worst.weight:
                head, row, key = (int(n) for n in torch.unravel_index(on_wrong.argmax(), on_wrong.shape))
                worst = Leak(largest, b, head, int(part[row]), key, 0.0, 0, False, None)
    if worst is not None:
        worst.share, worst.heads = total / count, len(heads)
        worst.only_wrong = possible and on_right < 1e-3
        worst.offsets = (min(offsets), max(offsets)) if offsets else None
    return worst


def _sample(rows: Int[Tensor, "rows"], shape: tuple[int, int, int, int], is_eager: bool) -> Int[Tensor, "some"]:
    """Return all rows, or evenly spaced ones if their weights are many."""
    batch, heads, _, size = shape
    limit = max(8, 8 * WEIGHTS_AT_ONCE // (batch * heads * size))
    if is_eager or len(rows) <= limit:
        return rows
    return rows[torch.linspace(0, len(rows) - 1, limit, device=rows.device).round().long()]


def same_keys(keys: Bool[Tensor, "batch keys"]) -> Pairs:
    """Return the pairs of every query with the given keys of its item."""
    return lambda rows: keys[:, None].expand(-1, len(rows), -1)


def find_padding(subject: Subject) -> list[Finding]:
    """Return a finding if real queries put weight on padding."""
    real = subject.real
    if real is None or bool(real.all()):
        return []
    leak = find_leak(subject, same_keys(~real), same_keys(real))
    if leak is None:
        return []
    advice = INVERTED if leak.only_wrong else "pass the padding mask to the model"
    what = "mask inverted" if leak.only_wrong else "attends to padding"
    return [_finding(subject, leak, what, "padding", advice)]


def find_future(subject: Subject) -> list[Finding]:
    """Return a finding if queries put weight on keys after them."""
    keys = torch.arange(subject.call.shape[3], device=subject.device)
    own = _own_positions(subject)
    leak = find_leak(
        subject, lambda rows: keys > own[:, rows, None], lambda rows: (keys < own[:, rows, None]) & _is_real(subject)
    )
    if leak is None:
        return []
    advice = "add a causal mask"
    if leak.only_wrong:
        advice = INVERTED + ", or whether the mask is transposed"
    elif leak.offsets is not None and leak.offsets[0] == leak.offsets[1] > 0:
        n = leak.offsets[0]
        advice = f"each query sees {n} key{'s' * (n > 1)} ahead: the causal mask is shifted by {n}"
    what = "mask inverted" if leak.only_wrong else "sees the future"
    return [_finding(subject, leak, what, "keys after the query", advice)]


def find_other_documents(subject: Subject) -> list[Finding]:
    """Return a finding if queries put weight on keys of another document."""
    documents = subject.documents
    assert documents is not None
    own = documents.gather(1, _own_positions(subject).expand(len(documents), -1))  # (B, L)
    other = documents[:, None]
    leak = find_leak(
        subject,
        lambda rows: (other != own[:, rows, None]) & (other >= 0) & _is_real(subject),
        lambda rows: other == own[:, rows, None],
    )
    if leak is None:
        return []
    advice = "packed documents need a mask that separates them: position_ids alone do not, if a mask is given as well"
    return [_finding(subject, leak, "attends to another document", "other documents", advice)]


def find_outside_window(subject: Subject, window: int) -> list[Finding]:
    """Return a finding if queries put weight on keys further back than the model's sliding window.

    Implementations keep `window` keys, or `window` keys and the query's own.
    """
    keys = torch.arange(subject.call.shape[3], device=subject.device)
    own = _own_positions(subject)
    leak = find_leak(
        subject,
        lambda rows: keys < own[:, rows, None] - window,
        lambda rows: (keys <= own[:, rows, None]) & (keys >= own[:, rows, None] - window),
    )
    if leak is None:
        return []
    advice = f"the model states a window of {window} keys: add it to the mask"
    return [_finding(subject, leak, "window ignored", "keys outside of the window", advice)]


def _own_positions(subject: Subject) -> Int[Tensor, "#batch queries"]:
    assert subject.positions is not None
    return subject.positions.to(subject.device)


def _is_real(subject: Subject) -> Tensor:
    """Return (B, 1, S): whether the key is real, as far as known."""
    if subject.real is not None:
        return subject.real[:, None]
    return torch.ones(1, 1, 1, dtype=torch.bool, device=subject.device)


def _finding(subject: Subject, leak: Leak, what: str, where: str, advice: str) -> Finding:
    call, item = subject.call, f" of batch item {leak.batch}" if subject.call.shape[0] > 1 else ""
    weight = f"{leak.weight:.3f}" if leak.weight >= 5e-4 else f"{leak.weight:.1e}"
    heads = f" in {leak.heads} of {call.shape[1]} heads" if call.shape[1] > 1 else ""
    message = f"query {leak.query}{item} puts {weight} on key {leak.key}; "
    message += f"{leak.share:.0%} of the weight is on {where}{heads}; {advice}"
    return Finding(what, call.name, leak.head, leak.query, leak.key, message)
