"""Prediction beside measurement: operations, peak bytes and time of the real thing."""

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from regard.costs.estimate import Cost, Estimate

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Measurement:
    """One length.

    operations      products of matrices, counted from the shapes of the calls that were made (profiled.py)
    peak            peak of the bytes allocated during the call
    seconds         time of the fastest run
    """

    seq: int
    predicted_operations: int
    operations: int
    predicted_peak: int
    peak: int
    seconds: float

    @property
    def operations_ratio(self) -> float:
        """Predicted / measured; 1 when exact."""
        return self.predicted_operations / self.operations

    @property
    def peak_ratio(self) -> float:
        """Predicted / measured."""
        return self.predicted_peak / self.peak

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds


@dataclass(frozen=True)
class Measured:
    """What `Cost.measure` returns: the cost, and a `Measurement` a length."""

    cost: Cost
    measurements: tuple[Measurement, ...]

    def table(self) -> "Table":
        """Predicted and measured, a row a length."""
        from regard.costs.table import measured_table

        return measured_table(self)

    def to_dict(self) -> dict[str, Any]:
        found = [
            asdict(one) | {"operations_ratio": one.operations_ratio, "peak_ratio": one.peak_ratio}
            for one in self.measurements
        ]
        return self.cost.to_dict() | {"measured": found}

    def to_json(self, indent: int | None = 1) -> str:
        """Prediction and measurement as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def __str__(self) -> str:
        from regard.costs.table import as_text

        return as_text(self.table())


def measure(cost: Cost, repeats: int = 3) -> Measured:
    """Run every call of the cost: once under the profiler, and `repeats` times against the clock.

    >>> import regard
    >>> found = regard.cost(d_model=16, heads=2, seq=[8]).measure(repeats=1).measurements[0]
    >>> found.operations == found.predicted_operations
    True
    """
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise ValueError(f"repeats must be a whole number, at least 1, got {repeats!r}")
    from rich.console import Console
    from rich.progress import track

    steps = list(zip(cost.estimates, cost.calls, strict=True))
    console = Console(stderr=True)
    watched = track(steps, "measuring", console=console, transient=True, disable=not sys.stderr.isatty())
    return Measured(cost, tuple(_measured(one, calls, repeats) for one, calls in watched))


def _measured(one: Estimate, calls: tuple[Any, ...], repeats: int) -> Measurement:
    from regard.costs.profiler import profiled

    operations, peak, seconds = 0, 0, 0.0
    for prepare in calls:
        prepare()()  # the first call of a kernel makes what later ones find made
        seen = profiled(prepare())
        operations, peak = operations + seen.operations, max(peak, seen.peak)
        seconds += min(timed(prepare) for _ in range(repeats))
    return Measurement(one.seq, one.matmul.total, operations, one.peak, peak, seconds)


def timed(prepare: Any) -> float:
    """Seconds of one call that `prepare` makes ready."""
    call = prepare()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
