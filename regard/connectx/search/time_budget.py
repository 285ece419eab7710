"""Run a search in short slices, so that it stops in time.

Machine code cannot be interrupted. So a search is a function that continues a little further at each call.
`run_in_slices` measures how much it does in a millisecond, and stops before the time is over.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SLICE = 0.001  # seconds: short compared with any budget, long compared with the cost of a call
MARGIN = 0.1  # share of the budget that is not used, as a reserve
HALF_LIFE = 1.0  # seconds in which the remembered length of the longest slice is halved

_longest, _longest_at = 0.0, 0.0


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Turn garbage collection off inside the `with` block: a full collection takes much of a small time budget."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def run_in_slices(
    step: Callable[[int], int], seconds: float | None, most: int | None = None, start: float | None = None
) -> int:
    """Call `step(n)`, which does up to n units of work and returns how many, and return the total.

    It stops when a step did fewer than n units (the search has finished), when `most` units are done, or when the
    time is nearly over. On a busy machine other processes may interrupt a slice. So no slice begins that would end late
    if it took twice as long as the longest recent one; but half of the time is used in any case. `start` (of
    `time.perf_counter`) is when the time began; without it the time begins now, and at least one slice runs.

    >>> run_in_slices(lambda n: n, None, most=1000)
    1000
    """
    global _longest, _longest_at
    always_once = start is None
    start = time.perf_counter() if start is None else start
    done, size = 0, 16
    while most is None or done < most:
        units = size if most is None else min(size, most - done)
        now = time.perf_counter()
        if seconds is not None and (done or not always_once):
            delay = min(2 * _longest * 0.5 ** ((now - _longest_at) / HALF_LIFE), seconds / 2)
            if now - start + max(SLICE + MARGIN * seconds, delay) >= seconds:
                break
        completed = step(units)
        done += completed
        end = time.perf_counter()
        duration = end - now
        if seconds is not None and duration >= _longest * 0.5 ** ((end - _longest_at) / HALF_LIFE):
            _longest, _longest_at = min(duration, seconds), end
        if completed < units:
            break
        # At most double the size, so that one fast slice does not make the next one long.
        size = max(1, min(2 * size, int(size * SLICE / max(duration, 1e-7))))
    return done
