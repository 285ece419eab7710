"""Search in slices, so that the clock is looked at often and a budget is kept.

Machine code cannot be interrupted. So a search is a step that can be taken again and again, each time a little
further: this loop finds out how much it gets done in a millisecond or two, and stops before the time is over.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SLICE = 0.001  # seconds: short against any budget, long against the way into machine code
MARGIN = 0.1  # of the budget is kept back, for what the machine does besides
HALF = 1.0  # seconds after which a slice that was long for want of the processor counts half

_longest, _when = 0.0, 0.0


@contextmanager
def undisturbed() -> Iterator[None]:
    """Without garbage collection: in a program with many objects a full one takes a good part of a small budget."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def in_slices(
    step: Callable[[int], int], seconds: float | None, most: int | None = None, begun: float | None = None
) -> int:
    """Call `step(n)`, which does up to n units of work and returns how many, until one of these: it did fewer than
    asked (it has finished), `most` units are done, or the time is nearly over. Returns the units done.

    On a busy machine other processes take the processor away in the middle of a slice. The next one may take twice as
    long as the longest of late: none begins that would then be late. Half of the time is used in any case.
    `begun` (of `time.perf_counter`) is when the time began to run, if not now; then there may be none left to begin.

    >>> in_slices(lambda n: n, None, most=1000)
    1000
    """
    global _longest, _when
    needed = begun is None
    begun = time.perf_counter() if begun is None else begun
    done, size = 0, 16
    while most is None or done < most:
        asked = size if most is None else min(size, most - done)
        start = time.perf_counter()
        if seconds is not None and (done or not needed):
            late = min(2 * _longest * 0.5 ** ((start - _when) / HALF), seconds / 2)
            if start - begun + max(SLICE + MARGIN * seconds, late) >= seconds:
                break
        got = step(asked)
        done += got
        end = time.perf_counter()
        taken = end - start
        if seconds is not None and taken >= _longest * 0.5 ** ((end - _when) / HALF):
            _longest, _when = min(taken, seconds), end
        if got < asked:
            break
        # At most twice as much as before: one lucky slice must not make the next one long.
        size = max(1, min(2 * size, int(size * SLICE / max(taken, 1e-7))))
    return done
