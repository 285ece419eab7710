"""The steps of a generation as one call per module: prompt and continuation together.

A model that generates calls each attention module once for the prompt and once for each new token. The queries of all
steps in order, over the keys of the last step, are one call with the same weights. Keys are stored once.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import masks
from regard.watching.call import Call
from regard.watching.statistics.row_statistics import Statistics


def group_steps(calls: list[Call], number: int | None = None) -> tuple[list[Call], list[int]]:
    """Return one merged call per module for a generation, and the step of each query: 0 for the prompt.

    number      which generation of the recording, counted from 0; needed if there are several
    """
    runs: dict[str, list[list[Call]]] = {}
    for call in calls:
        of_module = runs.setdefault(call.name, [])
        if of_module and _continues(of_module[-1][-1], call):
            of_module[-1].append(call)
        else:
            of_module.append([call])
    count = max((len(of_module) for of_module in runs.values() if any(len(run) > 1 for run in of_module)), default=0)
    if count == 0:
        raise ValueError(
            "the recording contains no generation: no module attends in several steps over a growing cache; "
            "run model.generate(…) inside the with-block"
        )
    if number is None and count > 1:
        raise ValueError(f"the recording contains {count} generations; choose one: generation(number=0)")
    if not 0 <= (number or 0) < count:
        raise ValueError(f"number must be between 0 and {count - 1}, got {number}")
    chosen = [of_module[number or 0] for of_module in runs.values() if len(of_module) > (number or 0)]
    first = next(run for run in chosen if len(run) > 1)
    steps = [step for step, call in enumerate(first) for _ in range(call.shape[2])]
    return [_merge(run) for run in chosen], steps


def _continues(last: Call, call: Call) -> bool:
    """Whether a call is the next step after another call of the same module."""
    if call.shape[:2] != last.shape[:2] or call.cross != last.cross:
        return False
    if call.cross:
        return call.shape[3] == last.shape[3] and call.shape[2] == 1
    if call.positions is None or last.positions is None:
        return False
    return bool((call.positions[..., 0] == last.positions[..., -1] + 1).all())


def _merge(calls: list[Call]) -> Call:
    """Return one call with the queries of all calls over the keys of the last one."""
    last = calls[-1]
    if len(calls) == 1:
        return last
    if any(call.score_function is not None for call in calls):
        raise ValueError(f"the steps of {last.name!r} cannot be merged: its scores are changed by a function")
    size = last.shape[3] if last.cross else last.rows_seen()
    _check_same_keys(calls, size)
    batch, heads = last.shape[:2]
    length = sum(call.shape[2] for call in calls)
    merged = Call(last.name, last.kernel, (batch, heads, length, size), last.scale, model=last.model, cross=last.cross)
    merged.sinks, merged.softcap, merged.bias_rule = last.sinks, last.softcap, last.bias_rule
    merged.positions_searched = True
    if not last.cross:
        merged.query_positions = torch.cat([_rows(call, batch) for call in calls], -1)
        if bool((merged.query_positions == merged.query_positions[:1]).all()):
            merged.query_positions = merged.query_positions[0]
    if last.stored_statistics is not None:
        merged.stored_statistics = _merge_statistics(calls)
        merged.stored_sink = torch.cat([call.sink() for call in calls], 2)
        return merged
    if last.eager_weights is not None:
        merged.eager_weights = torch.cat([_widen(call.weights(), size, 0.0) for call in calls], 2)
        return merged
    merged.queries = _joined(calls, lambda call: call.q)
    merged.outputs = _joined(calls, lambda call: call.output) if last.outputs is not None else None
    merged.keys = lambda: last.k[:, :, :size]
    merged.values = (lambda: last.v[:, :, :size]) if last.values is not None else None
    if not last.cross and length == size and all(map(_is_causal, calls)):
        merged.mask = masks.causal()
    else:
        merged.boolean_mask = _cat_rows([_visible(call, size) for call in calls])
    if any(call.bias is not None for call in calls):
        merged.bias = torch.cat([_bias(call, size) for call in calls], 2)
    return merged


def _check_same_keys(calls: list[Call], size: int) -> None:
    """Raise ValueError if the keys of a step are not the first keys of the last step."""
    last = calls[-1]
    if last.eager_weights is not None or last.stored_statistics is not None:
        return
    for call in calls[:-1]:
        rows = min(size, call.shape[3] if call.cross else call.rows_seen())
        a, b = (x[:, :, :rows] for x in (call.k, last.k))
        heads = max(a.shape[1], b.shape[1])  # some models repeat the key heads in one step and not in another
        a, b = (x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1) for x in (a, b))
        same_memory = a.data_ptr() == b.data_ptr() and a.stride() == b.stride()
        if not same_memory and not torch.equal(a, b):
            raise ValueError(
                f"the steps of {last.name!r} cannot be merged: its keys were changed between steps (beam search "
                "reorders them, for example); read the calls one by one"
            )


def _rows(call: Call, batch: int) -> Tensor:
    return call.known_positions("generation").expand(batch, -1)


def _joined(calls: list[Call], part: Callable[[Call], Tensor]) -> Callable[[], Tensor]:
    return lambda: torch.cat([part(call) for call in calls], 2)


def _is_causal(call: Call) -> bool:
    tables = call.boolean_mask, call.bias
    return all(table is None for table in tables) and (
        (call.mask is None and call.shape[2] == 1) or call.mask == masks.causal()
    )


def _visible(call: Call, size: int) -> Tensor:
    """Return which keys the queries of a call see, (B, H or 1, L, size)."""
    batch, heads, length, keys = call.shape
    device = call.like.device
    visible = torch.ones(1, 1, length, keys, dtype=torch.bool, device=device)
    if call.boolean_mask is not None:
        visible = visible & call.boolean_mask
    if call.mask is not None:
        index = [torch.arange(n, device=device) for n in (batch, heads, length, keys)]
        b, h = index[0][:, None, None, None], index[1][:, None, None]
        h = h if call.mask.head_count > 1 else h[:1]
        visible = visible & call.mask.visible(b, h, index[2][:, None] + keys - length, index[3])
    return _widen(visible.expand(batch, -1, -1, -1), size, False)


def _cat_rows(tables: list[Tensor]) -> Tensor:
    """Concatenate tables (B, H or 1, L, S) along L."""
    heads = max(table.shape[1] for table in tables)
    return torch.cat([table.expand(-1, heads, -1, -1) for table in tables], 2)


def _bias(call: Call, size: int) -> Tensor:
    """Return the bias of a call, (B, H, L, size)."""
    bias = torch.zeros((), device=call.like.device) if call.bias is None else call.bias
    return _widen(bias.expand(call.shape), size, 0.0)


def _widen(table: Tensor, size: int, value: Any) -> Tensor:
    """Return a table (…, keys) with `size` keys: cut, or filled with a value."""
    return table[..., :size] if table.shape[-1] >= size else F.pad(table, (0, size - table.shape[-1]), value=value)


def _merge_statistics(calls: list[Call]) -> Statistics:
    parts = [call.statistics for call in calls]
    names = [x.name for x in fields(Statistics) if all(getattr(part, x.name) is not None for part in parts)]
    names.remove("received")
    return Statistics(**{name: torch.cat([getattr(part, name) for part in parts], 2) for name in names})
