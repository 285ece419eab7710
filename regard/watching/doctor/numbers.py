"""Numbers that look wrong: NaN, weights that are no softmax over the keys, masks added as 0 and 1, inverted biases."""

import torch
from torch import Tensor

from regard.watching.doctor.findings import Finding
from regard.watching.doctor.subject import Subject, recorded
from regard.watching.doctor.visible_pairs import row_chunks

SUM_ERROR = {torch.float32: 1e-3, torch.float64: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}


def find_not_finite(subject: Subject) -> list[Finding]:
    """Return a finding if queries, keys, values, weights or bias hold NaN, or infinity where it is not a mask."""
    call, relevant = subject.call, subject.relevant
    tensors = {"weights": call.eager_weights} if call.eager_weights is not None else {"queries": call.q, "keys": call.k}
    if (values := recorded(call, "v")) is not None:
        tensors["values"] = values
    for name, x in tensors.items():
        if bool(x.float().sum().isfinite()) if x.dtype != torch.float64 else bool(x.sum().isfinite()):
            continue
        wrong = ~x.isfinite()
        if name in ("queries", "weights"):  # padding queries are not checked
            wrong &= relevant[:, None, :, None]
        indices = wrong.nonzero()
        if len(indices):
            head, token = int(indices[0, 1]), int(indices[0, 2])
            message = f"{len(indices)} numbers of the {name} are NaN or infinite, the first at token {token}; "
            if name == "weights" and bool(wrong[tuple(indices[0, :3])].all()) and not bool(wrong.all()):
                message += "whole rows are NaN: softmax of a row in which the mask hides every key is NaN"
                subject.exclude(wrong.all(-1).any(1))
            else:
                message += "look for an overflow or a NaN in the layers before"
            return [
                Finding("not finite", call.name, head, token if name in ("queries", "weights") else None, None, message)
            ]
    if call.bias is not None and bool((call.bias.isnan() | call.bias.isposinf()).any()):
        message = (
            "the mask or bias that is added to the scores holds NaN or +inf; 0·(−inf) is NaN: use where or masked_fill"
        )
        return [Finding("not finite", call.name, None, None, None, message)]
    return []


def find_wrong_sums(subject: Subject) -> list[Finding]:
    """Return a finding if eager weights do not sum to 1 over the keys.

    Sinks, gates and mixed heads change the sums as well. A softmax over the queries is recognised by its columns, a
    mask applied after the softmax by rows that sum to 1 exactly where nothing is hidden.
    """
    call = subject.call
    weights = call.eager_weights
    if weights is None or call.shape[2] < 2 or call.sinks is not None:
        return []
    error = SUM_ERROR.get(weights.dtype, 1e-3)
    rows = weights.sum(-1, dtype=torch.float32)
    relevant = subject.relevant[:, None].expand_as(rows)
    wrong = ((rows - 1).abs() > error) & (rows != 0) & relevant
    if not bool(wrong.any()):
        return []
    b, head, query = (int(n) for n in wrong.nonzero()[0])
    columns = weights.sum(-2, dtype=torch.float32)
    if bool((((columns - 1).abs() <= error) | (columns == 0)).all()):
        return [wrong_axis(call.name, head, query)]
    hides = torch.zeros_like(wrong)
    for part in row_chunks(call):
        hides[:, :, part] = (weights[:, :, part] == 0).any(-1)
    complete = relevant & ~hides  # rows in which nothing is hidden
    if not bool(complete.any()) or any("sink" in name for name in _names(subject)):
        return []
    if bool((wrong == (hides & relevant & (rows != 0)))[relevant].all()) and bool((rows[wrong] < 1).all()):
        message = f"the weights of query {query} sum to {float(rows[b, head, query]):.3f}, "
        message += "and all rows without hidden keys to 1; apply the mask before the softmax, not after it"
        return [Finding("weights not normalized", call.name, head, query, None, message)]
    return []


def _names(subject: Subject) -> list[str]:
    """Return the names of the module's parameters and buffers."""
    module = subject.module
    return [] if module is None else [name for name, _ in (*module.named_parameters(), *module.named_buffers())]


def wrong_axis(name: str, head: int | None = None, query: int | None = None) -> Finding:
    """Return the finding for a module whose softmax is not over the keys."""
    message = "the softmax is not over the keys, so that the weights of a query do not sum to 1; "
    message += "use the axis of the keys (dim=-1 for scores q·kᵀ), and do not transpose the weights"
    return Finding("softmax over the wrong axis", name, head, query, None, message)


def find_mask_as_numbers(subject: Subject) -> list[Finding]:
    """Return a finding if a mask of 0 and 1 is added to the scores, which hides nothing."""
    bias = subject.call.bias
    if bias is None or bias.numel() < 2:
        return []
    low, high = bias.aminmax()
    if float(high - low) != 1.0 or float(low) not in (0.0, -1.0) or not bool(((bias == low) | (bias == high)).all()):
        return []
    message = f"{float(low):.0f} and {float(high):.0f} are added to the scores, which hides no key; "
    message += "a float mask holds 0 for visible keys and −inf for hidden ones: convert the mask to booleans"
    return [Finding("mask added as numbers", subject.call.name, None, None, None, message)]


def find_inverted_bias(subject: Subject) -> list[Finding]:
    """Return a finding if a linear position bias (ALiBi) grows with the distance in every head."""
    call = subject.call
    if subject.positions is None or call.shape[3] < 4:
        return []
    own = int(subject.positions[0, -1])
    table = _bias_of_last_query(subject)
    if table is None or own < 3:
        return []
    steps = table[0, :, 1 : own + 1].float().diff(dim=-1)  # from key 1, as key 0 may be hidden
    steps = steps[:, steps.isfinite().all(0)]
    if steps.shape[1] < 2:
        return []
    mean = steps.mean(-1, keepdim=True)
    linear = bool(((steps - mean).abs() <= 2e-2 * mean.abs()).all())
    if not linear or not bool((mean < 0).all()):
        return []
    message = "the bias grows with the distance from the query in every head, so that far keys are preferred; "
    message += "ALiBi subtracts slope · distance: check its sign"
    return [Finding("position bias inverted", call.name, 0, call.shape[2] - 1, None, message)]


def _bias_of_last_query(subject: Subject) -> Tensor | None:
    call = subject.call
    if call.bias_rule is not None:
        heads = torch.arange(call.shape[1], device=subject.device)[:, None]
        assert subject.positions is not None
        distance = subject.positions[0, -1].to(subject.device) - torch.arange(call.shape[3], device=subject.device)
        values: Tensor = call.bias_rule.values(heads, distance)
        return values.expand(call.shape[1], -1)[None]
    if call.bias is None or call.bias.shape[-1] == 1:
        return None
    return call.bias[:1, :, -1]


def find_dropout(subject: Subject) -> list[Finding]:
    """Return a finding if weights are dropped although the module is in evaluation mode."""
    call, module = subject.call, subject.module
    if call.dropout <= 0 or module is None or module.training:
        return []
    message = f"{call.dropout:.0%} of the weights are dropped although the module is in evaluation mode; "
    message += "scaled_dot_product_attention always applies dropout_p: pass 0 unless self.training"
    return [Finding("dropout in evaluation", call.name, None, None, None, message)]
