"""Checks of calls recorded with keep="statistics": what entropy, mean position and received weight alone can show."""

import torch
from torch import Tensor

from regard.watching.doctor.findings import Finding
from regard.watching.doctor.subject import Subject

SMALL = 1e-3


def find_future(subject: Subject) -> list[Finding]:
    """Return a finding if a row has more entropy, or a later mean position, than keys up to the query allow."""
    assert subject.positions is not None
    statistics = subject.call.statistics
    own = subject.positions.to(subject.device)[:, None]  # (B, 1, L)
    relevant = subject.relevant[:, None] & ~statistics.empty
    too_even = statistics.entropy > (own + 1.0).log() + SMALL
    too_late = subject.call.statistics.position > own + SMALL * (own + 1)
    wrong = (too_even | too_late) & relevant
    if not bool(wrong.any()):
        return []
    b, head, query = (int(n) for n in wrong.nonzero()[0])
    message = (
        f"query {query} of batch item {b} spreads its weight over more keys than there are up to it; add a causal mask"
    )
    return [Finding("sees the future", subject.call.name, head, query, None, message)]


def find_padding(subject: Subject) -> list[Finding] | str:
    """Return a finding if padding receives more weight than the padding queries, which are not checked, can give."""
    assert subject.real is not None
    received = subject.call.statistics.received
    if bool(subject.real.all()):
        return []
    if received is None:
        return "keep='statistics' stored no weight per key for this call"
    total = (received * ~subject.real[:, None]).sum(-1)  # (B, H)
    if float(total.max()) <= SMALL:
        return []
    from_padding = (~subject.relevant).sum(-1)[:, None]
    wrong = total > from_padding + SMALL
    if not bool(wrong.any()):
        return "padding receives weight, but perhaps only from padding queries; watch with keep='inputs'"
    b, head = (int(n) for n in wrong.nonzero()[0])
    key = int((received[b, head] * ~subject.real[b]).argmax())
    message = (
        f"padding of batch item {b} receives {float(total[b, head]):.3f} of weight; pass the padding mask to the model"
    )
    return [Finding("attends to padding", subject.call.name, head, None, key, message)]


def find_idle_heads(subject: Subject, *, causal: bool) -> list[Finding]:
    """Return heads whose rows all have the entropy, mean and spread of equal weights, or all weight on one key."""
    call, statistics = subject.call, subject.call.statistics
    _, heads, length, size = call.shape
    if length < 2 or size < 3:
        return []
    rows = subject.relevant[:, None] & ~statistics.empty
    mean = subject.call.statistics.position
    uniform = _is_uniform(statistics.entropy, mean, statistics.spread, size, rows)
    if causal and subject.positions is not None:
        own = subject.positions.to(subject.device)[:, None]
        uniform |= _is_uniform(statistics.entropy, mean, statistics.spread, own + 1, rows)
    one = ((statistics.entropy < 0.01) | ~rows).all(-1).all(0) & (length > 2)
    findings = []
    for head in range(heads):
        if bool(uniform[head]):
            message = "every query spreads its weight evenly over all visible keys, so the head does nothing; "
            message += "check that its query and key projections are loaded and trained"
            findings.append(Finding("uniform head", call.name, head, length - 1, None, message))
        elif bool(one[head]):
            keys = mean[:, head].round()
            first = keys.gather(-1, rows[:, 0].int().argmax(-1, keepdim=True))
            if bool(((keys == first) | ~rows[:, 0]).all()):
                message = f"every query puts all its weight on key {int(first[0])}, whatever the query; "
                message += "check for very large scores, or prune the head"
                findings.append(Finding("one-token head", call.name, head, 0, int(first[0]), message))
    return findings


def _is_uniform(entropy: Tensor, mean: Tensor, spread: Tensor, keys: Tensor | int, rows: Tensor) -> Tensor:
    """Return which heads have equal weights on the first `keys` keys in all rows with at least three."""
    n = torch.as_tensor(keys, device=entropy.device, dtype=torch.float32)
    enough = rows & (n > 2)
    even = (entropy - n.log()).abs() < 1e-5 * n.log().clamp_min(1)
    even &= ((mean - (n - 1) / 2).abs() < 2e-6 * n) & ((spread - ((n * n - 1) / 12).sqrt()).abs() < 1e-4 * n)
    return (even | ~enough).all(-1).all(0) & enough.any(-1).any(0)
