"""Against the clock on a machine that does other things as well: in turn, and the best of several."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch


def best_times(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Seconds of the fastest run of each call. They take turns, so that a busy moment slows all of them.

    >>> sorted(best_times({"a": lambda: 1, "b": lambda: 2}, repeats=2))
    ['a', 'b']
    """
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()  # the first run makes what later ones find made
    for turn in range(repeats):
        order = list(calls) if turn % 2 == 0 else list(calls)[::-1]
        for name in order:
            start = time.perf_counter()
            calls[name]()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads for torch, for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
