"""Numbers that describe the heads of one attention call in training."""

import math
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from regard.watching.call import Call, full_precision
from regard.watching.call_inputs import TENSORS

DEAD = 1e-3  # a head is dead if its output differs between tokens by less than this share of what is usual in the layer


@dataclass(frozen=True)
class Measurement:
    """What the heads of one module do in one step: a number for each head, None where it is not known.

    entropy     mean over the queries, in nats
    largest     largest score of all queries, before softmax; None for eager attention
    sink        mean weight on the first key and on no key
    dead        whether the output of the head is the same for every token
    """

    step: int
    module: str
    entropy: list[float | None]
    largest: list[float | None] | None
    sink: list[float | None]
    dead: list[bool] | None

    def to_json(self) -> dict[str, Any]:
        """Return the measurement as JSON values."""
        return dict(vars(self))


def measure(call: Call, step: int, items: int) -> Measurement:
    """Return the measurement of a call, from its first batch items."""
    part = call if call.folded else _first_items(call, min(items, call.shape[0]))
    statistics = part.statistics
    rows = (~statistics.empty).sum((0, 2)).clamp_min(1)
    sink = statistics.sink + part.sink()
    largest = None if statistics.largest is None else _numbers(statistics.largest.amax((0, 2)))
    return Measurement(
        step, call.name, _numbers(statistics.entropy.sum((0, 2)) / rows), largest, _numbers(sink.sum((0, 2)) / rows),
        _dead_heads(part),
    )  # fmt: skip


def _first_items(call: Call, count: int) -> Call:
    """Return a call with the first batch items only."""
    call.check_unchanged()
    changes: dict[str, Any] = {}
    for name in TENSORS:
        x = getattr(call, name)
        if x is not None and not callable(x) and len(x) > 1:
            changes[name] = x[:count]
        elif callable(x):
            changes[name] = x()[:count]
    positions = call.positions
    if positions is not None and positions.dim() == 2:
        changes["query_positions"] = positions[:count]
    return replace(call, shape=(count, *call.shape[1:]), computed={}, versions={}, live=None, **changes)


def _dead_heads(call: Call) -> list[bool] | None:
    """Return whether the output of each head is the same for every token; None if the output is not known."""
    if call.outputs is None or call.shape[0] * call.shape[2] < 2 or call.shape[1] < 2:
        return None
    with full_precision(call):
        outputs = call.output.float().transpose(0, 1).flatten(1, 2)  # (H, B · L, d_v)
        differences = (outputs - outputs.mean(1, keepdim=True)).square().mean((1, 2)).sqrt()
        usual = differences.median()
        return (differences <= DEAD * usual).tolist()


def _numbers(values: Tensor) -> list[float | None]:
    return [round(x, 6) if math.isfinite(x) else None for x in values.tolist()]
