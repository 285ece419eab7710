"""Operations by part. A multiplication and an addition count as two.

    q, out          2 · B·L · D · H·d_k  each
    k, v            2 · B·S · D · H_kv·d_k  each          with a cache only the new tokens, not S
    scores          2 · pairs · d_k                       pairs counted over batch and heads
    weighted sum    2 · pairs · d_k
    softmax         5 · pairs      maximum, subtract, exponentiate, add up, divide

Backward, a projection has two products for its one (dW and dx). Fused attention has five for its two: the scores
once more, dQ and dK on the side of the scores, dV and dP on that of the weighted sum; with the weights at hand
the first of them falls away. Softmax has 4 a pair: rowsum(P ∘ dP) takes two, P ∘ (dP − rowsum) two.

Everything but softmax is a product of matrices, so `matmul` is what counters of FLOPs count. Additions of biases,
masks, positions, residuals and gradients are left out, as they leave them out.
"""

from dataclasses import dataclass

from regard.costs.layer import Layer

PROJECTIONS = ("q projection", "k projection", "v projection", "out projection")
PAIRWISE = ("scores", "softmax", "weighted sum")
PARTS = (*PROJECTIONS, *PAIRWISE)

SOFTMAX_FORWARD, SOFTMAX_BACKWARD = 5, 4


@dataclass(frozen=True)
class Work:
    """Operations of one part, forward and backward."""

    forward: int = 0
    backward: int = 0

    @property
    def total(self) -> int:
        return self.forward + self.backward

    def __add__(self, other: "Work") -> "Work":
        return Work(self.forward + other.forward, self.backward + other.backward)


def operations(layer: Layer, pairs: int, *, backward: bool) -> dict[str, Work]:
    """Operations of each part when so many pairs are computed; backward is 0 unless asked for.

    >>> from regard import cost
    >>> work = cost(d_model=8, heads=2, seq=[3]).estimates[0].operations
    >>> work["scores"].forward                          # 2 · (2 heads · 3 · 3 pairs) · 4
    144
    """
    b, q, kv = layer.batch, layer.heads * layer.d_k, layer.kv_heads * layer.d_k
    forward = {
        "q projection": 2 * b * layer.queries * layer.d_model * q,
        "k projection": 2 * b * layer.projected * layer.key_dim * kv,
        "v projection": 2 * b * layer.projected * layer.value_dim * kv,
        "out projection": 2 * b * layer.queries * q * layer.d_model if layer.out else 0,
        "scores": 2 * pairs * layer.d_k,
        "softmax": SOFTMAX_FORWARD * pairs,
        "weighted sum": 2 * pairs * layer.d_k,
    }
    # The gradient of the log-sum-exp rides in one more column, with others to make the width a multiple of 8.
    product = 2 * pairs * (layer.d_k + (8 - layer.d_k % 8 if layer.sinks else 0))
    back = {name: 2 * forward[name] for name in PROJECTIONS} | {
        "scores": (2 if layer.materialised else 3) * product,
        "softmax": SOFTMAX_BACKWARD * pairs,
        "weighted sum": 2 * product,
    }
    return {part: Work(forward[part], back[part] if backward else 0) for part in PARTS}


def matmul(work: dict[str, Work]) -> Work:
    """The products of matrices alone: all parts but softmax."""
    return sum((done for part, done in work.items() if part != "softmax"), Work())
