"""Predicted operations and bytes of one or several attention calls."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.costs.layer import Layer
from regard.costs.operations import Work, matmul, operations
from regard.costs.predicted_peak_memory import peak_memory
from regard.costs.stored_bytes import bytes_by_part
from regard.costs.visible_pairs import Pairs, count_pairs


@dataclass(frozen=True)
class Estimate:
    """Predicted cost of one call, or of the calls of several layers one after the other.

    seq         S, the number of keys; the largest of several layers
    pairs       pairs of query and key over batch and heads: all, visible, computed
    operations  part → operations forward and backward, for the visible pairs
    computed    part → operations for the computed pairs, which is what a FLOP counter measures
    bytes       part → bytes
    peak        peak of the bytes allocated during the call, without parameters, input and cache; the largest of
                several layers

    >>> import regard
    >>> estimate = regard.cost(d_model=64, heads=4, seq=128).estimates[0]
    >>> estimate.total.forward, estimate.bytes["context"]
    (8716288, 32768)
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
        """Sum of the operations of all parts, for the visible pairs."""
        return sum(self.operations.values(), Work())

    @property
    def matmul(self) -> Work:
        """Operations of the matrix products (all parts but softmax), for the computed pairs."""
        return matmul(self.computed)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON."""
        return {
            "seq": self.seq,
            "layers": [layer.name for layer in self.layers],
            "pairs": asdict(self.pairs),
            "operations": {part: asdict(work) for part, work in self.operations.items()},
            "operations_computed": {part: asdict(work) for part, work in self.computed.items()},
            "matmul_operations": self.matmul.total,
            "bytes": dict(self.bytes),
            "peak_bytes": self.peak,
        }


def estimate_layers(layers: Sequence[Layer], *, backward: bool) -> Estimate:
    """Return the predicted cost of the calls of these layers, one after the other."""
    total = Pairs(0, 0, 0)
    visible: dict[str, Work] = {}
    computed: dict[str, Work] = {}
    sizes: dict[str, int] = {}
    for layer in layers:
        pairs = count_pairs(layer)
        total += pairs
        for parts, count in ((visible, pairs.visible), (computed, pairs.computed)):
            for part, work in operations(layer, count, backward=backward).items():
                parts[part] = parts.get(part, Work()) + work
        for part, size in bytes_by_part(layer, backward=backward).items():
            sizes[part] = sizes.get(part, 0) + size
    seq, peak = max(x.keys for x in layers), max(peak_memory(x, backward=backward) for x in layers)
    return Estimate(seq, tuple(layers), total, visible, computed, sizes, peak)
