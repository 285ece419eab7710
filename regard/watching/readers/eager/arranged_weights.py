"""Weights of eager attention with their axes in the order (…, heads, queries, keys), and their values likewise."""

import math

from torch import Tensor

from regard.watching.readers.eager.products import Label, Product
from regard.watching.readers.eager.tracker import Tracker
from regard.watching.readers.eager.trails import Fold, Layout, Softmax, Trail, Weighing
from regard.watching.readers.wrapped_tensors import unwrap


def arrange(tracker: Tracker, product: Product, i: int, j: int, trail: Trail, out: Tensor) -> Weighing | None:
    """Arrange the operand i as (…, L, S): its other axes, the axis of the queries, the axis of the keys."""
    labels, of_values, result = list(product.labels[i]), list(product.labels[j]), list(product.result)
    weights, values = product.operands[i] if trail.value is None else trail.value, product.operands[j]
    weights = weights.to_dense() if weights.is_sparse else weights
    assert trail.axis is not None
    key = labels[trail.axis]
    sizes = dict(zip(labels, weights.shape, strict=True))
    candidates = [x for x in labels if x != key and x not in of_values]
    leading = [x for x in labels if x != key]
    if len(leading) > 1 and leading[0] in candidates and leading[-1] not in candidates:
        return None  # relative positions: "values" of pairs of a query and a key, the same for the whole batch
    query, leading = _order(tracker, candidates, leading, sizes)
    if query is None and has_own_keys(tracker, trail, [sizes[x] for x in leading]):
        return None
    order = [labels.index(x) for x in (*leading, *([] if query is None else [query]), key)]
    arranged = weights.permute(order)
    arranged = arranged if query is not None else arranged[..., None, :]
    features = [x for x in of_values if x not in leading and x != key]
    values_order = [of_values.index(x) for x in (*(x for x in leading if x in of_values), key, *features)]
    placed = values.permute(values_order)
    for position, label in enumerate(leading):
        placed = placed if label in of_values else placed.unsqueeze(position)
    placed = last_axis(placed, len(features))
    output: Tensor | None = None
    output_order: list[int] | None = None
    rest = [x for x in result if x not in leading and x != query]
    if len(result) == out.dim() and all(x in result for x in (*leading, *([] if query is None else [query]))):
        output_order = [result.index(x) for x in (*leading, *([] if query is None else [query]), *rest)]
        output = out.permute(output_order)
        output = last_axis(output if query is not None else output.unsqueeze(len(leading)), len(rest))
    output = output if len(product.operands) == 2 else None
    if len(leading) == 3 and _has_groups(tracker, arranged, placed):
        arranged = arranged.flatten(1, 2)
        placed = placed.expand(-1, -1, arranged.shape[1] // placed.shape[1], -1, -1).flatten(1, 2)
        output = None if output is None else output.flatten(1, 2)
    weighing = count(tracker, arranged, placed, output, trail, trail.value is not None)
    if weighing is not None:
        weighing.layout = Layout(
            product.operands[i], order, trail.value, product.operands[j], values_order, placed, output_order
        )
    return weighing


def _has_groups(tracker: Tracker, weights: Tensor, values: Tensor) -> bool:
    """Whether (B, H_kv, group, L, S) weights have groups of heads that share values; else the axes are windows."""
    _, outer, inner = weights.shape[:3]
    heads = tracker.heads(tracker.module())
    if values.shape[1] != outer:
        return False
    return outer * inner == heads if heads is not None else values.shape[2] == 1 < inner


def _order(
    tracker: Tracker, candidates: list[Label], leading: list[Label], sizes: dict[Label, int]
) -> tuple[Label | None, list[Label]]:
    """Return the label of the queries, and the other labels with that of the heads last."""
    heads = tracker.heads(tracker.module()) if len(leading) > 2 else None
    query = candidates[-1] if candidates else None
    for candidate in reversed(candidates):  # (B, L, H, S) where the heads share values: H is not the queries
        if math.prod(sizes[x] for x in leading[1:] if x != candidate) == heads:
            query = candidate
            break
    leading = [x for x in leading if x != query]
    if heads is not None and len(leading) > 1 and sizes[leading[-1]] != heads:
        same = [x for x in leading if sizes[x] == heads]
        if len(same) == 1:
            leading = [*(x for x in leading if x != same[0]), same[0]]
    return query, leading


def has_own_keys(tracker: Tracker, trail: Trail, sizes: list[int]) -> bool:
    """Whether every query has keys and values of its own, where no axis of the weights belongs to queries only."""
    own = len(sizes) > 2
    if len(sizes) == 2:  # (B, H, S) or (B, L, S)
        heads, lengths = tracker.heads(tracker.module()), tracker.lengths()
        own = sizes[1] != heads and len(lengths) > 1 and sizes[1] == lengths[1] > 1
    if own and trail.softmax is not None:
        trail.softmax.own_keys = True
    return own


def count(
    tracker: Tracker, weights: Tensor, values: Tensor, output: Tensor | None, trail: Trail, dropout: bool
) -> Weighing | None:
    """Count a product of weights with values; return None if the weights were multiplied with other values before."""
    softmax = trail.softmax
    if softmax is None:  # exponentials, whose sum is not known yet
        softmax = Softmax(tracker.module(), tuple(weights.shape), weights.shape[-1], trail.scores, trail.scale)
    softmax.products += 1
    softmax.partial_products += weights.shape[-1] + 1 < softmax.size
    if softmax.products > 1 and weights.numel() >= math.prod(softmax.shape):
        return None  # the same weights again, with other values
    outer, heads = weights.dim(), tracker.heads(tracker.module())
    weights, values = unwrap(weights.detach()), unwrap(values.detach())
    output = None if output is None else unwrap(output.detach())
    if weights.dim() == outer + 1 == 4 and weights.shape[1] != heads == len(weights):  # torch.vmap over heads
        weights = weights.transpose(0, 1)
        values = values.transpose(0, 1) if values.dim() == 4 else values[:, None]
        output = None if output is None else output.transpose(0, 1)
    fold = Fold(len(weights)) if weights.dim() == 3 else None
    return Weighing(weights, softmax, values, output, softmax.scale, fold, dropout)


def last_axis(x: Tensor, count: int) -> Tensor:
    """Return x with its last `count` axes in one."""
    return x.unsqueeze(-1) if count == 0 else x.flatten(-count) if count > 1 else x
