"""Heads that do nothing: uniform weights, all weight on one token, the same weights as another head, dead values."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.watching.doctor.findings import Finding
from regard.watching.doctor.subject import Subject, recorded

SAMPLE = 24  # queries of each item that are examined first
EVEN = 1e-5  # relative difference of weights or keys that counts as equal
SAME = 3e-6  # relative difference of the weights of heads that counts as rounding
EVEN_EAGER = 5e-7  # the same where only weights are known: small scores of a new model must count as different


def find_idle_heads(subject: Subject) -> list[Finding] | str:
    """Return the heads that spread their weight evenly, put it on one key, or repeat another head, for every query."""
    call = subject.call
    length, size = call.shape[2:]
    if length < 2 or size < 3:
        return []
    if call.eager_weights is not None and call.eager_weights.dtype in (torch.bfloat16, torch.float16):
        return "the model computes its weights in half precision, in which small differences vanish"
    rows = [sample_rows(subject, b, SAMPLE) for b in range(call.shape[0])]
    weights = [call.weights(batch=[b], queries=r.tolist())[0] for b, r in enumerate(rows) if len(r)]
    if not weights:
        return []
    findings = []
    uniform = _uniform(weights, EVEN if call.eager_weights is None else EVEN_EAGER)
    uniform_heads = [head for head in uniform.nonzero()[:, 0].tolist() if _scores_are_equal(subject, head)]
    if uniform_heads and _tokens_are_equal(subject):
        return "all tokens of the input are equal"
    for head in uniform_heads:
        message = "every query spreads its weight evenly over all visible keys, so the head does nothing; "
        message += "check that its query and key projections are loaded and trained"
        findings.append(Finding("uniform head", call.name, head, length - 1, None, message))
    one_token = _one_token(weights) if length > 2 else {}
    for head, key in one_token.items():
        if head not in uniform_heads and _always_one_token(subject, head):
            message = f"every query puts all its weight on key {key}, whatever the query; "
            message += "check for very large scores, or prune the head"
            findings.append(Finding("one-token head", call.name, head, 0, key, message))
    for head, first in _repeated(weights).items():
        if head not in uniform_heads and head not in one_token:
            message = f"its weights are those of head {first}; check that the heads have their own projections"
            findings.append(Finding("repeated head", call.name, head, None, None, message))
    return findings


def sample_rows(subject: Subject, b: int, count: int) -> Int[Tensor, "rows"]:
    """Return at most `count` evenly spaced checked queries of a batch item."""
    rows = subject.relevant[b].nonzero()[:, 0]
    if len(rows) <= count:
        return rows
    return rows[torch.linspace(0, len(rows) - 1, count, device=rows.device).round().long()]


def _uniform(items: list[Float[Tensor, "heads _ keys"]], even_within: float = EVEN) -> Tensor:
    """Return which heads have equal weights on all visible keys in every row with at least three."""
    heads = items[0].shape[0]
    even = torch.ones(heads, dtype=torch.bool, device=items[0].device)
    examined = torch.zeros_like(even)
    for weights in items:
        visible = weights > 0
        enough = visible.sum(-1) > 2
        largest, smallest = weights.amax(-1), weights.masked_fill(~visible, 1.0).amin(-1)
        even &= ((largest - smallest <= even_within * largest) | ~enough).all(-1)
        examined |= enough.any(-1)
    return even & examined


def _scores_are_equal(subject: Subject, head: int) -> bool:
    """Whether the scores of a head are equal because of its queries, keys or scale, not because they are small.

    A new model with small parameters has small scores, which differ as much as their size.
    """
    q, k = (recorded(subject.call, name) for name in "qk")
    if q is None or k is None or subject.call.scale == 0:
        return True
    keys = k[:, head // (q.shape[1] // k.shape[1])].float()
    differences = (keys - keys[:, :1]).abs().amax()
    return not bool(q[:, head].any()) or bool(differences <= EVEN * keys.abs().amax())


def _one_token(items: list[Float[Tensor, "heads _ keys"]]) -> dict[int, int]:
    """Return the heads whose rows have all weight on one key, the same for all rows of an item, and that key."""
    largest = [weights.max(-1) for weights in items]
    same = torch.stack([((w > 0.998) & (key == key[:, :1])).all(-1) for w, key in largest]).all(0)
    key_of_head: list[int] = torch.where(same, largest[0].indices[:, 0], -1).tolist()
    return {head: key for head, key in enumerate(key_of_head) if key >= 0}


def _always_one_token(subject: Subject, head: int) -> bool:
    """Whether all queries of a head, or 512 of them, put their weight on one key of their item."""
    for b in range(subject.call.shape[0]):
        rows = sample_rows(subject, b, 512)
        if len(rows):
            largest, key = subject.call.weights(batch=b, head=head, queries=rows.tolist()).max(-1)
            if not (bool((largest > 0.998).all()) and bool((key == key[0]).all())):
                return False
    return True


def _repeated(items: list[Float[Tensor, "heads _ keys"]]) -> dict[int, int]:
    """Return the heads whose weights are those of an earlier head, apart from rounding, and that head.

    Rows that put the same weight on every key that they see, as of padding, are equal in healthy heads too.
    """
    informative = [weights for weights in items if not bool(_uniform([weights.where(weights > 1e-20, 0.0)]).all())]
    informative = [weights for weights in informative if bool(((weights > 0).sum(-1) > 2).any())]
    rows = torch.cat([x.flatten(1) for x in informative or [items[0][:0]]], -1).cpu()
    repeated: dict[int, int] = {}
    for head in range(1, len(rows)):
        for first in range(head):
            if first not in repeated and torch.allclose(rows[head], rows[first], rtol=SAME, atol=0.0):
                repeated[head] = first
                break
    return repeated


def _tokens_are_equal(subject: Subject) -> bool:
    """Whether all tokens seem to be equal: queries and keys differ at most by a rotation, values not at all."""
    q, k, v = (recorded(subject.call, name) for name in "qkv")
    if q is None or k is None or v is None:
        return False
    norms = [x.float().norm(dim=-1) for x in (q, k)]
    equal = all(bool(((x - x[..., :1]).abs() <= 1e-4 * x).all()) for x in norms)
    return equal and bool(((v - v[:, :, :1]).abs() <= 1e-5 * v.abs().amax()).all())


def find_dead_values(subject: Subject) -> list[Finding] | str:
    """Return the heads whose values are zero or the same for all tokens, so that the weights have no effect."""
    call = subject.call
    if call.shape[3] < 3:
        return []
    v = recorded(call, "v")
    if v is None:
        return "the values are not recorded"
    largest, smallest = v.amax(2), v.amin(2)  # (B, H_kv, d_v)
    size = v.abs().amax((0, 2, 3))
    constant = ((largest - smallest).amax((0, 2)) <= 1e-6 * size) & (size > 0)
    if bool(constant.any()) and _tokens_are_equal(subject):
        constant = torch.zeros_like(constant)
    group = call.shape[1] // v.shape[1]
    findings = []
    for head in ((size == 0) | constant).nonzero()[:, 0].tolist():
        kind = "zero" if size[head] == 0 else "the same for all tokens"
        message = f"its values are {kind}, so its weights have no effect; "
        message += "check that its value projection is loaded and trained"
        findings.append(Finding("dead values", call.name, head * group, None, None, message))
    return findings
