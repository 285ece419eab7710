"""Statistics on the CPU: compiled loops over the rows of score blocks.

This is about half the work of a fused attention call, which computes a second matrix product. It also gives the
weight that each key receives.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.extras import installed
from regard.watching.call_inputs import CallInputs, PerQuery
from regard.watching.statistics.row_statistics import Statistics, include_sinks
from regard.watching.weights.score_blocks import score_blocks

MOST_SORTED = 64  # up to this many largest weights, insertion into a sorted list is faster than torch.topk


def supports(call: CallInputs) -> bool:
    """Whether the compiled loops can process the call: on the CPU, in float32 or less, with numba installed."""
    return (
        call.eager_weights is None
        and not call.edits
        and call.q.is_cpu
        and call.q.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and installed("numba")
    )


def statistics(call: CallInputs, sinks: tuple[int, ...] = (0,)) -> Statistics:
    """Return all statistics; `sink` is the weight on the keys in `sinks`."""
    batch, heads, length, size = call.shape
    kernels = _compiled_kernels()
    with _Threads() as threads:
        columns = torch.zeros(kernels.COLUMNS, batch, heads, length, dtype=torch.float64)
        columns[-2:] = -torch.inf
        received = np.zeros((threads.count, batch, heads, size))
        row_sums = np.empty((threads.count, size), np.float32)
        sink_keys = np.array(sorted(set(sinks)), np.int64)
        for block in score_blocks(call):
            scores, per_head = block.scores.flatten(0, 1).numpy(), block.scores.shape[1]
            results = np.empty((len(scores), kernels.COLUMNS))
            layout = per_head, block.triangular, block.keys.start

            def work(thread: int, first: int, last: int) -> None:
                total = received[thread, block.batch, block.heads]  # noqa: B023 (done before the next block)
                kernels.describe(scores, (first, last), *layout, sink_keys, row_sums[thread], results, total)  # noqa: B023

            threads.share(work, len(scores))
            columns[:, block.batch, block.heads, block.rows] = torch.from_numpy(results.T).unflatten(1, (-1, per_head))
    entropy, mean, spread, sink, lse, largest = columns
    empty = lse.isneginf()
    statistics = Statistics(
        entropy=entropy.float(),
        position=mean.clone(),
        spread=spread.float(),
        sink=sink.float(),
        empty=empty,
        lse=lse.float(),
        received=torch.from_numpy(received.sum(0)).float(),
        largest=largest.float(),
    )
    return include_sinks(statistics, call.sinks)


def top(
    call: CallInputs, count: int, lse: PerQuery
) -> tuple[Float[Tensor, "batch heads queries top"], Int[Tensor, "batch heads queries top"]]:
    """Return the largest weights of each query and their keys, largest first; key −1 where fewer are visible."""
    values = torch.full((*call.shape[:3], count), -torch.inf)
    positions = torch.full((*call.shape[:3], count), -1)
    kernels = _compiled_kernels()
    with _Threads() as threads:
        maxima = np.empty((threads.count, call.shape[3] + 2 * count), np.float32)
        for block in score_blocks(call):
            scores, per_head = block.scores.flatten(0, 1).numpy(), block.scores.shape[1]
            best = np.empty((len(scores), count), np.float32), np.empty((len(scores), count), np.int64)
            layout = per_head, block.triangular, block.keys.start

            def work(thread: int, first: int, last: int) -> None:
                kernels.largest_scores(scores, (first, last), *layout, maxima[thread], *best)  # noqa: B023

            threads.share(work, len(scores))
            target = block.batch, block.heads, block.rows
            values[target], positions[target] = (torch.from_numpy(x).unflatten(0, (-1, per_head)) for x in best)
    values.sub_(lse.to(values.dtype).masked_fill(lse.isneginf(), 0.0)[..., None]).exp_()
    return values, positions


class _Threads:
    """Pool with as many threads as torch uses; without a pool if that is one."""

    def __init__(self) -> None:
        self.count = torch.get_num_threads()

    def __enter__(self) -> "_Threads":
        self.pool = ThreadPoolExecutor(self.count) if self.count > 1 else None
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown()

    def share(self, work: Callable[[int, int, int], None], rows: int) -> None:
        """Call work(thread, first row, last row) for equal slices of the rows."""
        if self.pool is None or rows < 2 * self.count:
            work(0, 0, rows)
            return
        edges = [rows * i // self.count for i in range(self.count + 1)]
        for _ in self.pool.map(work, range(self.count), edges[:-1], edges[1:]):
            pass


@cache
def _compiled_kernels() -> ModuleType:
    """Return the module of compiled loops. The first use on a machine compiles them, which takes seconds."""
    from regard.numba_functions import announce_compilation
    from regard.watching.statistics import numba_row_loops as kernels

    row, place = np.zeros((1, 1), np.float32), np.zeros((1, 1), np.int64)
    results, received = np.zeros((1, kernels.COLUMNS)), np.zeros((1, 1))
    with announce_compilation("the statistics of attention"):
        kernels.largest_scores(row, (0, 1), 1, False, 0, row[0], row, place)
        kernels.describe(row, (0, 1), 1, False, 0, place[0], row[0], results, received)
    return kernels
