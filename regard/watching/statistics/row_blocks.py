"""Statistics on the CPU, from scores computed a block at a time and compiled loops over their rows.

Half the work of a fused call, which multiplies twice where this multiplies once; what keys receive comes with it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.watching.weights import blocks

if TYPE_CHECKING:
    from regard.watching.call import Call

MOST = 64  # largest weights of a row that are worth keeping sorted one by one


class Found(NamedTuple):
    """What the rows of a call are like, in float64: (B, H, L) each, and what each key receives, (B, H, S)."""

    entropy: Tensor
    mean: Tensor  # place attended to; 0 for an empty row, like all but its lse
    spread: Tensor
    mass: Tensor
    lse: Tensor
    received: Tensor


def possible(call: "Call") -> bool:
    """Whether the compiled loops are for this call: on the CPU, in float32 or less."""
    return call.q.is_cpu and call.q.dtype in (torch.float32, torch.bfloat16, torch.float16)


def describe(call: "Call", on: tuple[int, ...]) -> Found:
    """Entropy, mean and spread of the place, mass on some keys, log-sum-exp, and what keys receive."""
    batch, heads, length, size = call.shape
    kernels = _kernels()
    with _Threads() as threads:
        found = torch.zeros(kernels.COLUMNS, batch, heads, length, dtype=torch.float64)
        found[-1] = -torch.inf
        received = np.zeros((threads.count, batch, heads, size))
        gained = np.empty((threads.count, size), np.float32)
        sinks = np.array(sorted(set(on)), np.int64)
        for block in blocks(call):
            scores, per = block.scores.flatten(0, 1).numpy(), block.scores.shape[1]
            here = np.empty((len(scores), kernels.COLUMNS))
            common = per, block.stairs, block.keys.start, sinks

            def work(thread: int, first: int, last: int) -> None:
                total = received[thread, block.batch, block.heads]  # noqa: B023 (done before the next block)
                kernels.describe(scores, (first, last), *common, gained[thread], here, total)  # noqa: B023

            threads.share(work, len(scores))
            found[:, block.batch, block.heads, block.rows] = torch.from_numpy(here.T).unflatten(1, (-1, per))
    entropy, mean, spread, mass, lse = found
    return Found(entropy, mean, spread, mass, lse, torch.from_numpy(received.sum(0)))


def top(call: "Call", count: int) -> tuple[Float[Tensor, "b h l n"], Int[Tensor, "b h l n"]]:
    """The largest weights of every row and their keys."""
    batch, heads, length, size = call.shape
    lse = call.lse
    values = torch.full((batch, heads, length, count), -torch.inf)
    places = torch.full((batch, heads, length, count), -1)
    kernels = _kernels()
    with _Threads() as threads:
        maxima = np.empty((threads.count, size + 2 * count), np.float32)
        for block in blocks(call):
            scores, per = block.scores.flatten(0, 1).numpy(), block.scores.shape[1]
            best = np.empty((len(scores), count), np.float32), np.empty((len(scores), count), np.int64)
            common = per, block.stairs, block.keys.start

            def work(thread: int, first: int, last: int) -> None:
                kernels.largest_of(scores, (first, last), *common, maxima[thread], *best)  # noqa: B023

            threads.share(work, len(scores))
            here = block.batch, block.heads, block.rows
            values[here], places[here] = (torch.from_numpy(x).unflatten(0, (-1, per)) for x in best)
    values.sub_(lse.to(values.dtype).masked_fill(lse.isneginf(), 0.0)[..., None]).exp_()
    return values, places


class _Threads:
    """As many as torch uses, for the loops between its products of matrices; none but this one where that is one."""

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
def _kernels() -> ModuleType:
    """The compiled loops. Where they are not on disk yet, compiling takes seconds: once for each machine, and said."""
    from regard.compiled import announce_compilation
    from regard.watching.statistics import compiled_rows as kernels

    row, place = np.zeros((1, 1), np.float32), np.zeros((1, 1), np.int64)
    found, received = np.zeros((1, kernels.COLUMNS)), np.zeros((1, 1))
    with announce_compilation("the statistics of attention"):
        kernels.largest_of(row, (0, 1), 1, False, 0, row[0], row, place)
        kernels.describe(row, (0, 1), 1, False, 0, place[0], row[0], found, received)
    return kernels
