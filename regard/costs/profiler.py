"""What really happened, as torch's profiler saw it: products of matrices by their shapes, and bytes as they came.

The profiler looks on from below: it changes no path that a layer takes, sees inside torch's native operators, and
is told of every allocation. `torch.utils.flop_counter` counts 0 for fused attention on the CPU; here it counts
with the shapes of the very calls that were made:

    mm, addmm, bmm, baddbmm         2 · n·m·p, times the batch
    fused attention, forward        2 products of B·H · pairs · d           pairs = L·S, or the causal triangle
    fused attention, backward       5 products
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

FORWARD = "aten::_scaled_dot_product_flash_attention_for_cpu"


@dataclass(frozen=True)
class Seen:
    """Operations of all products of matrices, and the peak of bytes allocated, during one call."""

    operations: int
    peak: int


def profiled(call: Callable[[], object]) -> Seen:
    """Run the call once under the profiler.

    >>> a, b = torch.ones(2, 3), torch.ones(3, 4)
    >>> profiled(lambda: a @ b).operations                          # 2 · 2·3·4
    48
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler says on stderr that it starts and stops
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True, record_shapes=True) as profile:
        result = call()
    del result
    assert profile.profiler is not None
    events = profile.profiler.kineto_results.events()
    changes = sorted(
        ((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"), key=lambda c: c[0]
    )
    alive = most = 0
    for _, change in changes:
        alive += change
        most = max(most, alive)
    return Seen(sum(_counted(event.name(), event.shapes(), event.concrete_inputs()) for event in events), most)


def _counted(name: str, shapes: list[list[int]], inputs: list[Any]) -> int:
    """Operations of one event; 0 for what is no product of matrices, or made of others that are seen too."""
    if name in ("aten::mm", "aten::bmm"):
        return _product(shapes[0], shapes[1])
    if name in ("aten::addmm", "aten::baddbmm", "aten::addmm_", "aten::baddbmm_"):
        return _product(shapes[1], shapes[2])
    if name in ("aten::addmv_", "aten::addmv"):
        return 2 * math.prod(shapes[1])
    if name == FORWARD:
        return 2 * _attention(shapes[0], shapes[1], bool(inputs[4]))
    if name == FORWARD + "_backward":
        return 5 * _attention(shapes[1], shapes[2], bool(inputs[7]))
    return 0


def _product(left: list[int], right: list[int]) -> int:
    return 2 * math.prod(left) * right[-1]


def _attention(q: list[int], k: list[int], causal: bool) -> int:
    """One product of q (B, H, L, d) with k (B, H_kv, S, d); with torch's causal rule, aligned at the start."""
    b, h, queries, d = q
    keys = k[2]
    visible = sum(min(row + 1, keys) for row in range(queries)) if causal else queries * keys
    return 2 * b * h * visible * d
