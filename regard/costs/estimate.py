"""What `regard.cost` returns: operations and bytes by part, for each length."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.costs.layer import Layer
from regard.costs.memory import kept
from regard.costs.operations import Work, matmul, operations
from regard.costs.peak import peak
from regard.costs.visible_pairs import Pairs, count_pairs

if TYPE_CHECKING:
    from rich.table import Table

    from regard.costs.measurement import Measured

Prepare = Callable[[], Callable[[], object]]  # makes a call ready, which is not counted, and returns it


@dataclass(frozen=True)
class Estimate:
    """The predicted cost of one call, or of the calls of several layers, one after the other.

    seq         S, the number of keys; of several layers the largest
    pairs       pairs of query and key over batch and heads: all, visible, computed
    operations  part → operations forward and backward, for the visible pairs
    computed    the same for the pairs that are computed: what a counter of the run must find
    bytes       part → bytes
    peak        bytes alive at the fullest moment, beyond parameters, input and cache; of several layers the largest
    """

    seq: int
    layers: tuple[Layer, ...]
    pairs: Pairs
    operations: Mapping[str, Work]
    computed: Mapping[str, Work]
    bytes: Mapping[str, int]
    peak: int

    @property
    def total(self) -> Work:
        """All parts, for the visible pairs."""
        return sum(self.operations.values(), Work())

    @property
    def matmul(self) -> Work:
        """Products of matrices alone, for the pairs that are computed."""
        return matmul(dict(self.computed))


def estimate(layers: Sequence[Layer], *, backward: bool) -> Estimate:
    """The cost of these layers together."""
    pairs, peaks = Pairs(0, 0, 0), []
    visible: dict[str, Work] = {}
    computed: dict[str, Work] = {}
    held: dict[str, int] = {}
    for layer in layers:
        mine = count_pairs(layer)
        pairs += mine
        for total, count in ((visible, mine.visible), (computed, mine.computed)):
            for part, work in operations(layer, count, backward=backward).items():
                total[part] = total.get(part, Work()) + work
        for part, size in kept(layer, backward=backward).items():
            held[part] = held.get(part, 0) + size
        peaks.append(peak(layer, backward=backward))
    return Estimate(max(x.keys for x in layers), tuple(layers), pairs, visible, computed, held, max(peaks))


@dataclass(frozen=True)
class Cost:
    """The predicted cost, one `Estimate` a sequence length; of a module, one for all its attention layers.

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

    def table(self) -> "Table":
        """A row a part, a column a length; print it with rich, or `print(cost)` for plain text."""
        from regard.costs.table import cost_table

        return cost_table(self)

    def plot(self, path: str | Path) -> None:
        """Draw operations and bytes against length into a PNG, SVG or PDF."""
        from regard.costs.plot import plot

        plot(self, path)

    def measure(self, repeats: int = 3) -> "Measured":
        """Run it: time, operations and peak memory beside the prediction, with the error.

        repeats     how many runs are timed, after two that are not; the best counts
        """
        from regard.costs.measurement import measure

        return measure(self, repeats)

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": 1,
            "what": self.what,
            "backward": self.backward,
            "estimates": [_as_dict(each) for each in self.estimates],
        }

    def to_json(self, indent: int | None = 1) -> str:
        """All numbers as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def __str__(self) -> str:
        from regard.costs.table import as_text

        return as_text(self.table())


def _as_dict(one: Estimate) -> dict[str, Any]:
    def works(parts: Mapping[str, Work]) -> dict[str, dict[str, int]]:
        return {part: {"forward": work.forward, "backward": work.backward} for part, work in parts.items()}

    return {
        "seq": one.seq,
        "layers": [layer.name for layer in one.layers],
        "pairs": {"all": one.pairs.all, "visible": one.pairs.visible, "computed": one.pairs.computed},
        "operations": works(one.operations),
        "operations_computed": works(one.computed),
        "matmul_operations": one.matmul.total,
        "bytes": dict(one.bytes),
        "peak_bytes": one.peak,
    }
