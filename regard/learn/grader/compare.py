"""Compare a result with the expected one: type, shape, dtype, NaN, then values. Only the first difference counts.

A list is accepted where a tuple is expected. float32 and float64 are both accepted; a value in the narrower of the two
types is compared with its tolerance.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.learn.sandbox.serialization import Array, Other

TOLERANCE = {"float64": (1e-7, 1e-9), "float32": (1e-4, 1e-5)}  # relative and absolute tolerance by dtype


@dataclass(frozen=True)
class Difference:
    """First difference of two results: its kind and both values; `which` is their index if a tuple was returned."""

    kind: str  # none, kind, count, shape, dtype, nan, values, error, raised, silent
    expected: Any
    yours: Any
    which: int | None = None


def compare_outcomes(expected: dict[str, Any], yours: dict[str, Any]) -> Difference | None:
    """Return the first difference of two outcomes, each a value or an error; None if they agree."""
    if "error" in expected:
        if "error" not in yours:
            return Difference("silent", expected["error"], yours["value"])
        same = expected["error"]["type"] in yours["error"]["bases"]
        return None if same else Difference("raised", expected["error"], yours["error"])
    if "error" in yours:
        return Difference("error", expected["value"], yours["error"])
    return compare_values(expected["value"], yours["value"])


def compare_values(expected: Any, yours: Any, which: int | None = None) -> Difference | None:
    """Return the first difference of two values; None if they agree.

    >>> ours = Array(np.zeros((2, 3)), "numpy", "float64")
    >>> compare_values(ours, Array(np.zeros((3, 2)), "numpy", "float64")).kind
    'shape'
    >>> compare_values((ours, ours), [ours, ours]) is None
    True
    """
    if yours is None and expected is not None:
        return Difference("none", expected, None, which)
    if isinstance(expected, Array):
        return _compare_arrays(expected, yours, which)
    if is_sequence(expected):
        if not is_sequence(yours) or len(expected) != len(yours):
            return Difference("count" if which is None else "kind", expected, yours, which)
        return _first(
            compare_values(e, y, i if which is None else which)
            for i, (e, y) in enumerate(zip(expected, yours, strict=True))
        )
    if isinstance(expected, dict) and isinstance(yours, dict) and expected.keys() == yours.keys():
        return _first(compare_values(expected[key], yours[key], which) for key in expected)
    same = type(expected) is type(yours) and expected == yours
    return None if same else Difference("values", expected, yours, which)


def is_sequence(value: Any) -> bool:
    """Return whether a value is a tuple or a list; an `Array` and an `Other` are named tuples, but single values."""
    return isinstance(value, tuple | list) and not isinstance(value, Array | Other)


def _first(differences: Iterable[Difference | None]) -> Difference | None:
    return next((difference for difference in differences if difference), None)


def _compare_arrays(expected: Array, yours: Any, which: int | None) -> Difference | None:
    if isinstance(yours, int | float) and not isinstance(yours, bool) and expected.values.ndim == 0:
        yours = Array(np.asarray(yours, dtype=expected.values.dtype), expected.library, expected.dtype)
    if not isinstance(yours, Array) or yours.library != expected.library:
        return Difference("kind", expected, yours, which)
    if yours.values.shape != expected.values.shape:
        return Difference("shape", expected, yours, which)
    if yours.dtype != expected.dtype and not {yours.dtype, expected.dtype} <= set(TOLERANCE):
        return Difference("dtype", expected, yours, which)
    if (np.isnan(yours.values) & ~np.isnan(expected.values)).any():
        return Difference("nan", expected, yours, which)
    narrower = "float32" if "float32" in (yours.dtype, expected.dtype) else expected.dtype
    relative, absolute = TOLERANCE.get(narrower, (0.0, 0.0))
    if narrower == "float32":  # rounding errors of a sum depend on its largest terms
        absolute *= max(1.0, float(np.max(np.abs(expected.values), initial=0.0, where=np.isfinite(expected.values))))
    with np.errstate(all="ignore"):
        close = np.isclose(yours.values, expected.values, rtol=relative, atol=absolute, equal_nan=True)
    return None if close.all() else Difference("values", expected, yours, which)
