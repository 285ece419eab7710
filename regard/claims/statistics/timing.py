"""Timing on a machine that other processes use as well: CPU time of one thread, in turn, and the fastest run counts.

CPU time does not grow while another process has the core, so that load changes it little. Wall time, which several
threads need, is taken only on an idle machine.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch


def best_times(calls: Mapping[str, Callable[[], object]], repeats: int, *, threads: int = 1) -> dict[str, float]:
    """Return the seconds of the fastest run of each call. The calls alternate, so that load on the machine slows all.

    threads     with one thread CPU time is measured, with several wall time, for which the machine must be idle

    >>> sorted(best_times({"a": lambda: 1, "b": lambda: 2}, repeats=2))
    ['a', 'b']
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    if threads > 1:
        require_idle_machine()
    best = dict.fromkeys(calls, float("inf"))
    with torch_threads(threads):
        for call in calls.values():
            call()  # warm-up: the first run allocates and compiles
        for turn in range(repeats):
            for name in list(calls) if turn % 2 == 0 else list(calls)[::-1]:
                start = clock()
                calls[name]()
                best[name] = min(best[name], max(clock() - start, 1e-9))
    return best


def require_idle_machine() -> None:
    """Raise ValueError if other processes use the machine."""
    load, cores = (os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0), os.cpu_count() or 1
    if load > cores + 0.5:
        raise ValueError(
            f"times of several threads need an idle machine, but the load average is {load:.1f} on {cores} cores; "
            "finished parts are stored, and the same command resumes when the machine is idle"
        )


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Temporarily set torch's number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
