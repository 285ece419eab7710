"""Calls whose axes hold something else than they seem to: batch and heads in one axis, heads as queries, query chunks.

What an axis holds is known from the module's attributes, from its input, and from what the model does afterwards.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from regard.watching.call import Call
from regard.watching.readers.eager.trails import Fold
from regard.watching.recorder.call_site import CallSite


def separate_heads(folds: Iterable[tuple[Call, Fold, tuple[int, ...]]], heads_of: Callable[[str], int | None]) -> None:
    """Separate batch and heads of calls that hold them in one axis, once the model has shown how it does."""
    for call, fold, sizes in folds:
        heads, batches = heads_of(call.name), sizes or (1,)
        order = None
        if fold.split is not None:
            first, second = fold.split
            if heads == second or (heads != first and first in batches):
                order = (first, second), False
            elif heads == first or second in batches:
                order = (second, first), True
        elif fold.size == batches[0]:
            order = (fold.size, 1), False
        elif fold.size == heads and (batches[0] == 1 or heads not in batches):
            order = (1, fold.size), False  # one item of a batch at a time
        if order is None:
            call.folded = fold.size > 1
        else:
            call.separate(*order)


def likely_sizes(size: int, heads: int | None, sizes: tuple[int, ...]) -> tuple[int, int]:
    """Return batch size and number of heads of an axis that holds both, the batch varying slowest, as is usual.

    heads   number of heads that the module states
    sizes   the first two sizes of the module's input
    """
    if heads is not None and size % heads == 0 and size // heads in sizes:
        return size // heads, heads
    if size in sizes[:1]:
        return size, 1
    if heads is not None and size % heads == 0:
        return size // heads, heads
    return (sizes[0], size // sizes[0]) if sizes and size % sizes[0] == 0 else (1, size)


def find_query_chunks(pieces: Iterable[tuple[Call, Tensor | None]]) -> None:
    """Set the positions of calls that process the queries of one sequence in pieces, over the same keys."""
    groups: dict[Any, list[Call]] = {}
    for call, sequence in pieces:
        if isinstance(call.keys, Tensor) and sequence is not None and sequence.shape[1] == call.shape[3]:
            key = call.name, id(sequence), call.keys.data_ptr(), call.shape[:2], call.shape[3]
            groups.setdefault(key, []).append(call)
    for calls in groups.values():
        if len(calls) > 1 and sum(call.shape[2] for call in calls) == calls[0].shape[3]:
            start = 0
            for call in calls:
                index = torch.arange(start, start + call.shape[2], device=call.like.device)
                call.query_positions, call.positions_searched = index, True
                start += call.shape[2]


def unpack_heads(call: Call, site: CallSite, heads: int | None) -> None:
    """Undo the packing of a single query with grouped heads: H_kv heads × (H / H_kv) queries are H heads × 1 query."""
    batch, packed, length, size = call.shape
    if packed * length != heads:
        return

    def unpack(x: Any) -> Any:
        if not isinstance(x, Tensor) or x.dim() < 3 or x.shape[1:3] != (packed, length):
            return x
        return x.reshape(x.shape[0], heads, 1, *x.shape[3:])

    call.shape = (batch, heads, 1, size)
    call.queries, call.outputs = unpack(call.queries), unpack(call.outputs)
    call.boolean_mask, call.bias = unpack(call.boolean_mask), unpack(call.bias)
    call.cached = call.cached or (not call.cross and site.has_cache)


def merge_groups(
    heads: int | None, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Merge groups and heads of 5-D tensors (B, groups, heads, L, d) if together they are as many as the module has."""
    groups, per_group = args[0].shape[1:3]

    def merge(x: Any) -> Any:
        if not isinstance(x, Tensor) or x.dim() != 5:
            return x
        return x.expand(-1, groups, per_group, -1, -1).flatten(1, 2)

    if groups * per_group != heads:
        return args, kwargs, out
    return tuple(map(merge, args)), {name: merge(x) for name, x in kwargs.items()}, merge(out)


def use_positions(call: Call, positions: Tensor) -> None:
    """Use the positions that the caller gave, if they fit the call."""
    batch, _, length, size = call.shape
    fits = positions.shape[-1] == length and (positions.dim() == 1 or positions.shape[0] == batch)
    if fits and int(positions.max()) < size:
        call.query_positions, call.positions_searched = positions.to(call.like.device), True
