"""Causal masks, correct or with a mistake."""

from collections.abc import Callable

import numpy as np

from regard.learn.mistakes.parts import Array, Made

CAUSAL = (
    "aligned-at-start", "not-itself", "one-ahead", "upside-down", "no-mask", "upside-down:strict", "only-itself",
    "aligned-at-start:not-itself", "aligned-at-start:one-ahead", "upside-down:start", "wrong-shift", "not-itself:nan",
    "aligned-at-start:nan", "one-ahead:nan",
)  # fmt: skip


def with_nan(made: Made) -> Made:
    """Return the mistakes with empty rows left as NaN, where a causal mistake says so."""
    return {**made, "mask": "nan"} if made.get("causal", "").endswith(":nan") else made


def visible_pairs(made: Made, L: int, S: int) -> Array:
    """Return the pairs (L, S) of query and key that are visible, with the mistake made in the part "causal"."""
    shift = S - L
    results: dict[str, Callable[[], Array]] = {
        "aligned-at-start": lambda: np.tri(L, S, 0, dtype=bool),
        "aligned-at-start:not-itself": lambda: np.tri(L, S, -1, dtype=bool),
        "aligned-at-start:one-ahead": lambda: np.tri(L, S, 1, dtype=bool),
        "not-itself": lambda: np.tri(L, S, shift - 1, dtype=bool),
        "one-ahead": lambda: np.tri(L, S, shift + 1, dtype=bool),
        "upside-down": lambda: ~np.tri(L, S, shift - 1, dtype=bool),
        "upside-down:strict": lambda: ~np.tri(L, S, shift, dtype=bool),
        "upside-down:start": lambda: ~np.tri(L, S, -1, dtype=bool),
        "no-mask": lambda: np.ones((L, S), dtype=bool),
        "only-itself": lambda: np.eye(L, S, shift, dtype=bool),
        "wrong-shift": lambda: np.tri(L, S, L - S, dtype=bool),
    }
    return results.get(made.get("causal", "").removesuffix(":nan"), lambda: np.tri(L, S, shift, dtype=bool))()
