"""Timing on a machine that other processes use as well: calls take turns, and the fastest run counts."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch


def best_times(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the seconds of the fastest run of each call. The calls alternate, so that load on the machine slows all.

    >>> sorted(best_times({"a": lambda: 1, "b": lambda: 2}, repeats=2))
    ['a', 'b']
    """
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()  # warm-up: the first run allocates and compiles
    for turn in range(repeats):
        for name in list(calls) if turn % 2 == 0 else list(calls)[::-1]:
            start = time.perf_counter()
            calls[name]()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Temporarily set torch's number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
