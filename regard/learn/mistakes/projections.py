"""Projections to queries, keys and values, and the mistakes that can be made in them."""

from collections.abc import Callable

from regard.learn.mistakes.parts import Array, Made

Projection = Callable[[Array], Array]

PROJECTIONS = (
    "order", "shared-projection", "keys-and-values-swapped", "values-not-projected", "values-from-keys-projection",
    "shared-projection:queries", "values-from-queries-projection", "queries-and-values-swapped", "keys-not-projected",
    "queries-not-projected", "not-projected", "one-projection-for-all", "rotated-order",
    "rotated-order:back",
)  # fmt: skip


def project(made: Made, x: Array, w_q: Projection, w_k: Projection, w_v: Projection) -> tuple[Array, Array, Array]:
    """Return queries, keys and values with the mistake made in the part "projection"."""
    same: Projection = lambda x: x  # noqa: E731
    chosen = {
        "order": (w_k, w_q, w_v),
        "shared-projection": (w_q, w_q, w_v),
        "shared-projection:queries": (w_k, w_k, w_v),
        "keys-and-values-swapped": (w_q, w_v, w_k),
        "queries-and-values-swapped": (w_v, w_k, w_q),
        "rotated-order": (w_k, w_v, w_q),
        "rotated-order:back": (w_v, w_q, w_k),
        "values-not-projected": (w_q, w_k, same),
        "keys-not-projected": (w_q, same, w_v),
        "queries-not-projected": (same, w_k, w_v),
        "not-projected": (same, same, same),
        "values-from-keys-projection": (w_q, w_k, w_k),
        "values-from-queries-projection": (w_q, w_k, w_q),
        "one-projection-for-all": (w_q, w_q, w_q),
    }
    q, k, v = chosen.get(made.get("projection", ""), (w_q, w_k, w_v))
    return q(x), k(x), v(x)
