"""Operations by part. A multiplication and an addition count as two.

    q, out          2 · B·L · D · H·d_k  each
    k, v            2 · B·S · D · H_kv·d_k  each          with a cache only the new tokens, not S
    scores          2 · pairs · d_k                       pairs counted over batch and heads
    weighted sum    2 · pairs · d_k
    softmax         5 · pairs      maximum, subtract, exponentiate, sum, divide

Backward, a projection needs two products for its one (dW and dx). Fused attention needs five for its two: the scores
again, dQ and dK (counted as scores), dV and dP (counted as weighted sum). If the weights are stored, the scores are not
computed again. The gradient of softmax takes 4 operations per pair: two for rowsum(P ∘ dP), two for P ∘ (dP − rowsum).

Everything but softmax is a matrix product, so `matmul` is what FLOP counters report. Additions of biases, masks,
positions, residuals and gradients are not counted, as in those counters.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from regard.costs.layer import Layer

PROJECTIONS = ("q projection", "k projection", "v projection", "out projection")
PARTS = (*PROJECTIONS, "scores", "softmax", "weighted sum")

SOFTMAX_FORWARD, SOFTMAX_BACKWARD = 5, 4


@dataclass(frozen=True)
class Work:
    """Operations of one part, forward and backward.

    >>> (Work(2, 5) + Work(1, 1)).total
    9
    """

    forward: int = 0
    backward: int = 0

    @property
    def total(self) -> int:
        return self.forward + self.backward

    def __add__(self, other: "Work") -> "Work":
        return Work(self.forward + other.forward, self.backward + other.backward)


def operations(layer: Layer, pairs: int, *, backward: bool) -> dict[str, Work]:
    """Return the operations of each part for this number of pairs; those of the backward pass only if `backward`.

    >>> from regard import cost
    >>> work = cost(d_model=8, heads=2, seq=[3]).estimates[0].operations
    >>> work["scores"].forward                          # 2 · (2 heads · 3 · 3 pairs) · 4
    144
    """
    b, q_width, kv_width = layer.batch, layer.heads * layer.d_k, layer.kv_heads * layer.d_k
    forward = {
        "q projection": 2 * b * layer.queries * layer.d_model * q_width,
        "k projection": 2 * b * layer.projected_keys * layer.key_dim * kv_width,
        "v projection": 2 * b * layer.projected_keys * layer.value_dim * kv_width,
        "out projection": 2 * b * layer.queries * q_width * layer.d_model if layer.output else 0,
        "scores": 2 * pairs * layer.d_k,
        "softmax": SOFTMAX_FORWARD * pairs,
        "weighted sum": 2 * pairs * layer.d_k,
    }
    # The gradient of the log-sum-exp is one more column of the products, padded to a multiple of 8.
    product = 2 * pairs * (layer.d_k + (8 - layer.d_k % 8 if layer.sinks else 0))
    gradient = {name: 2 * forward[name] for name in PROJECTIONS} | {
        "scores": (2 if layer.materialised else 3) * product,
        "softmax": SOFTMAX_BACKWARD * pairs,
        "weighted sum": 2 * product,
    }
    return {part: Work(forward[part], gradient[part] if backward else 0) for part in PARTS}


def matmul(parts: Mapping[str, Work]) -> Work:
    """Return the sum of the matrix products: all parts but softmax."""
    return sum((work for part, work in parts.items() if part != "softmax"), Work())
