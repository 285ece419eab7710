"""Results of `regard.cost`: the predicted cost, and the prediction beside a measurement."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.costs.estimate import Estimate
from regard.costs.measurement import Measurement, Prepare, measure_estimates

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Cost:
    """Predicted cost, as returned by `regard.cost`.

    estimates   predicted cost for each sequence length, or of the module
    backward    whether the backward pass is counted
    what        description of the layer or module
    calls       what `measure` runs

    >>> import regard
    >>> cost = regard.cost(d_model=64, heads=4, seq=[128, 256])
    >>> [estimate.total.forward for estimate in cost.estimates]
    [8716288, 26476544]
    >>> print(cost.estimates[1].operations["softmax"])
    Work(forward=1310720, backward=0)
    """

    estimates: tuple[Estimate, ...]
    backward: bool = False
    what: str = ""
    calls: tuple[tuple[Prepare, ...], ...] = field(default=(), repr=False, compare=False)

    @property
    def title(self) -> str:
        return f"Attention, {'forward and backward' if self.backward else 'forward'}: {self.what}"

    def table(self) -> "Table":
        """Return a table with one row per part and one column per length; `print(cost)` prints it as plain text."""
        from regard.costs.table import cost_table

        return cost_table(self.estimates, self.title, backward=self.backward)

    def plot(self, path: str | Path) -> None:
        """Draw operations and bytes against length into a PNG, SVG or PDF file."""
        from regard.costs.plot import save_plot

        save_plot(self.estimates, self.title, path)

    def measure(self, repeats: int = 3) -> "Measured":
        """Run every call and return time, operations and peak memory beside the prediction.

        repeats     number of timed runs, after two that are not timed; the fastest counts

        >>> import regard
        >>> result = regard.cost(d_model=16, heads=2, seq=[8]).measure(repeats=1).measurements[0]
        >>> result.operations == result.predicted_operations
        True
        """
        return Measured(self, measure_estimates(self.estimates, self.calls, repeats))

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON."""
        estimates = [estimate.to_dict() for estimate in self.estimates]
        return {"version": 1, "what": self.what, "backward": self.backward, "estimates": estimates}

    def to_json(self, indent: int | None = 1) -> str:
        """Return all numbers as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def __str__(self) -> str:
        from regard.costs.table import to_text

        return to_text(self.table())


@dataclass(frozen=True)
class Measured:
    """A cost and its measurement, as `Cost.measure` returns it.

    cost            the prediction
    measurements    one `Measurement` for each sequence length

    >>> import regard
    >>> measured = regard.cost(d_model=16, heads=2, seq=[8, 16]).measure(repeats=1)
    >>> [result.operations_ratio for result in measured.measurements]       # predicted / measured
    [1.0, 1.0]
    """

    cost: Cost
    measurements: tuple[Measurement, ...]

    def table(self) -> "Table":
        """Return a table of predicted and measured numbers, for each length."""
        from regard.costs.table import measurement_table

        return measurement_table(self.measurements, f"Predicted and measured: {self.cost.what}")

    def to_dict(self) -> dict[str, Any]:
        """Return prediction and measurement, ready for JSON."""
        measured = [
            asdict(x) | {"operations_ratio": x.operations_ratio, "peak_ratio": x.peak_ratio} for x in self.measurements
        ]
        return self.cost.to_dict() | {"measured": measured}

    def to_json(self, indent: int | None = 1) -> str:
        """Return prediction and measurement as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def __str__(self) -> str:
        from regard.costs.table import to_text

        return to_text(self.table())
