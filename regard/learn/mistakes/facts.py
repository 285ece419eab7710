"""What is certain about wrong results that no known mistake explains: facts that say where to look."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.learn.mistakes.parts import RIGHT
from regard.learn.mistakes.recognise import Candidates, Values


def precision_mistake(candidates: Candidates) -> str | None:
    """Return a mistake of precision that all wrong results share: "half-precision", "integers" or "rounded:n"."""
    found: list[str | None] = []
    for i in candidates.wrong:
        right, yours = candidates.result(RIGHT, i), candidates.values[i]
        if not isinstance(right, tuple) or yours is None:
            return None
        if all(np.isfinite(y).all() for y in yours if y.dtype.kind == "f"):  # float16 overflows at large numbers
            found.append(_precision(right, yours))
    return found[0] if found and set(found) == {found[0]} else None


def _precision(expected: Values, yours: Values) -> str | None:
    pairs = [(e, y) for e, y in zip(expected, yours, strict=False) if e.shape == y.shape and y.dtype.kind == "f"]
    finite = [(e[np.isfinite(y)], y[np.isfinite(y)]) for e, y in pairs]
    e, y = (np.concatenate([pair[i] for pair in finite]) if finite else np.zeros(0) for i in (0, 1))
    if y.size < 2 or np.ptp(y) == 0 or not np.isfinite(e).all():
        return None
    with np.errstate(all="ignore"):
        if (y == np.trunc(y)).all() and np.abs(y - e).max() <= 1:
            return "integers"
        for digits in (1, 2, 3, 4):
            if np.allclose(y, np.round(y, digits), rtol=0, atol=1e-12) and np.abs(y - e).max() <= 10.0**-digits:
                return f"rounded:{digits}"
        half = y.astype(np.float16).astype(y.dtype)
    return "half-precision" if (half == y).all() and np.allclose(e, y, rtol=0.1, atol=0.1) else None


def scale_fact(candidates: Candidates, value: int) -> tuple[str, dict[str, Any]] | None:
    """Return a fact about the factor of the scores, if the learner's weights are softmax of scores times a factor.

    The logarithms of the weights are the scores, up to a constant of each row; a line through expected and learner's
    scores gives the factor.
    """
    factors, constants = [], []
    for i in candidates.order:
        right, unscaled = candidates.result(RIGHT, i), candidates.result({"scale": "unscaled"}, i)
        yours = candidates.values[i]
        if yours is None or not isinstance(right, tuple) or not isinstance(unscaled, tuple) or len(yours) <= value:
            continue
        factor, root = score_factor(right[value], yours[value]), score_factor(right[value], unscaled[value])
        if factor is not None and root is not None:
            factors.append(factor)
            constants.append(factor / root)
    if len(factors) < 3 or np.allclose(factors, 1, rtol=1e-3):
        return None
    if np.ptp(constants) < 1e-3 * abs(np.mean(constants)) and np.ptp(factors) > 1e-2 * abs(np.mean(factors)):
        return "constant-scale", {"factor": float(np.mean(constants))}
    return "scores-factor", {"factor": factors[0]}


def score_factor(expected: np.ndarray, yours: np.ndarray) -> float | None:
    """Return c if yours is the softmax of c times the scores of which expected is the softmax; otherwise None."""
    if expected.shape != yours.shape or expected.ndim == 0 or expected.shape[-1] < 3:
        return None
    with np.errstate(all="ignore"):
        usable = (expected > 1e-12) & (yours > 1e-12) & (expected < 1 - 1e-9)
        rows = usable.all(-1)
        if not rows.any() or not np.allclose(yours[rows].sum(-1), 1, atol=1e-4):
            return None
        x, y = np.log(expected[rows].astype(float)), np.log(yours[rows].astype(float))
    x, y = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    if not (x**2).sum() > 1e-6:
        return None
    factor = float((x * y).sum() / (x**2).sum())
    return factor if np.allclose(y, factor * x, rtol=1e-3, atol=2e-3) else None


def right_part(expected: np.ndarray, yours: np.ndarray, tolerance: tuple[float, float]) -> tuple[int, list[int]] | None:
    """Return an axis and its indices where the numbers are right, if they are right for some and not for all."""
    if expected.shape != yours.shape or expected.ndim < 2:
        return None
    with np.errstate(all="ignore"):
        close = np.isclose(yours, expected, rtol=tolerance[0], atol=tolerance[1], equal_nan=True)
    for axis in range(expected.ndim - 1):
        rest = tuple(other for other in range(expected.ndim) if other != axis)
        right = close.all(axis=rest)
        # What is right must be surrounded by slices that are clearly wrong, not by a few wrong numbers.
        if 0 < right.sum() < len(right) and (~close).mean(axis=rest)[~right].min() > 0.5:
            return axis, [int(i) for i in np.flatnonzero(right)]
    return None


def equal_slices(yours: np.ndarray, expected: np.ndarray) -> int | None:
    """Return an axis along which all slices of the result are equal although those expected differ."""
    if yours.shape != expected.shape:
        return None
    for axis in range(yours.ndim - 1):
        if yours.shape[axis] < 2:
            continue
        same, wanted = (np.ptp(a, axis=axis) if a.dtype.kind == "f" else None for a in (yours, expected))
        if same is not None and wanted is not None and np.isfinite(same).all() and same.max() < 1e-9 < wanted.max():
            return axis
    return None


def first_values(values: Sequence[Values | None], cases: Sequence[int]) -> int | None:
    """Return the first of these cases that has values."""
    return next((i for i in cases if values[i] is not None), None)
