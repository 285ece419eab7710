"""Measurement of real calls: operations and peak bytes from torch's profiler, and time.

The profiler does not change which kernels a layer runs, sees inside torch's native operators, and reports every
allocation. `torch.utils.flop_counter` counts 0 for fused attention on the CPU, so operations are counted here from the
shapes of the calls that the profiler recorded:

    mm, addmm, bmm, baddbmm         2 · n·m·p, times the batch
    fused attention, forward        2 products of B·H · pairs · d           pairs = L·S, or the causal triangle
    fused attention, backward       5 products
"""

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from regard.costs.estimate import Estimate

Prepare = Callable[[], Callable[[], object]]  # returns a call that is ready to run; only that call is measured

FUSED_ATTENTION = "aten::_scaled_dot_product_flash_attention_for_cpu"


@dataclass(frozen=True)
class Measurement:
    """Prediction and measurement for one sequence length.

    seq                                     length of the sequence
    predicted_operations, predicted_peak    what `regard.cost` predicts for `operations` and `peak`
    operations                              operations of the matrix products, counted from the shapes of the calls that
                                            ran
    peak                                    peak of the bytes allocated during the call
    seconds                                 time of the fastest run

    >>> result = Measurement(8, predicted_operations=90, operations=100, predicted_peak=50, peak=50, seconds=0.5)
    >>> result.operations_ratio, result.peak_ratio, result.rate
    (0.9, 1.0, 200.0)
    """

    seq: int
    predicted_operations: int
    operations: int
    predicted_peak: int
    peak: int
    seconds: float

    @property
    def operations_ratio(self) -> float:
        """Predicted / measured operations; 1 when exact."""
        return self.predicted_operations / self.operations

    @property
    def peak_ratio(self) -> float:
        """Predicted / measured peak; 1 when exact."""
        return self.predicted_peak / self.peak

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds


class Profile(NamedTuple):
    """Operations of all matrix products and peak of the allocated bytes during one call."""

    operations: int
    peak: int


def measure_estimates(
    estimates: Sequence[Estimate], calls: Sequence[Sequence[Prepare]], repeats: int
) -> tuple[Measurement, ...]:
    """Return the measurement of each estimate's calls, with a progress bar on a terminal."""
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise ValueError(f"repeats must be a whole number, at least 1, got {repeats!r}")
    from rich.console import Console
    from rich.progress import track

    pairs, quiet = list(zip(estimates, calls, strict=True)), not sys.stderr.isatty()
    steps = track(pairs, "measuring", console=Console(stderr=True), transient=True, disable=quiet)
    return tuple(measure_calls(x.seq, x.matmul.total, x.peak, prepares, repeats) for x, prepares in steps)


def measure_calls(
    seq: int, predicted_operations: int, predicted_peak: int, prepares: Sequence[Prepare], repeats: int
) -> Measurement:
    """Run each call once to warm up, once under the profiler and `repeats` times to measure the time."""
    operations, peak, seconds = 0, 0, 0.0
    for prepare in prepares:
        prepare()()  # the first call of a kernel allocates memory that later calls reuse
        profile = profile_call(prepare())
        operations, peak = operations + profile.operations, max(peak, profile.peak)
        seconds += min(_seconds(prepare()) for _ in range(repeats))
    return Measurement(seq, predicted_operations, operations, predicted_peak, peak, seconds)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def profile_call(call: Callable[[], object]) -> Profile:
    """Run the call once under torch's profiler.

    >>> a, b = torch.ones(2, 3), torch.ones(3, 4)
    >>> profile_call(lambda: a @ b).operations                          # 2 · 2·3·4
    48
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler otherwise reports its start and stop on stderr
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True, record_shapes=True) as profile:
        result = call()
    del result
    assert profile.profiler is not None
    events = profile.profiler.kineto_results.events()
    allocations = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    allocated = peak = 0
    for _, size in sorted(allocations, key=lambda allocation: allocation[0]):
        allocated += size
        peak = max(peak, allocated)
    return Profile(sum(_operations(event.name(), event.shapes(), event.concrete_inputs()) for event in events), peak)


def _operations(name: str, shapes: list[list[int]], inputs: list[Any]) -> int:
    """Return the operations of one event; 0 if it is no matrix product, or if its parts are counted as own events."""
    if name in ("aten::mm", "aten::bmm"):
        return 2 * math.prod(shapes[0]) * shapes[1][-1]
    if name in ("aten::addmm", "aten::baddbmm", "aten::addmm_", "aten::baddbmm_"):
        return 2 * math.prod(shapes[1]) * shapes[2][-1]
    if name in ("aten::addmv_", "aten::addmv"):
        return 2 * math.prod(shapes[1])
    if name == FUSED_ATTENTION:
        return 2 * _attention_operations(shapes[0], shapes[1], bool(inputs[4]))
    if name == FUSED_ATTENTION + "_backward":
        return 5 * _attention_operations(shapes[1], shapes[2], bool(inputs[7]))
    return 0


def _attention_operations(q: list[int], k: list[int], causal: bool) -> int:
    """Return the operations of one product q (B, H, L, d) · k (B, H_kv, S, d); `causal` is aligned at the start."""
    b, h, queries, d = q
    keys = k[2]
    visible = sum(min(row + 1, keys) for row in range(queries)) if causal else queries * keys
    return 2 * b * h * visible * d
