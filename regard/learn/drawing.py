"""Small arrays as text: what a learner compares by eye."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.learn.exchange import Array, Other

ROWS, COLUMNS = 6, 8


def drawn(value: Any, at: tuple[int, ...] | None = None) -> str:
    """A value as a few lines; of a large array the matrix at the leading index `at`, its corner.

    >>> print(drawn(Array(np.eye(2), "numpy", "float64")))
    [[1. 0.]
     [0. 1.]]
    """
    if isinstance(value, Other):
        return value.type
    if isinstance(value, dict) and "message" in value and "type" in value:
        return f"{value['type']}: {value['message']}"
    if isinstance(value, Array):
        return _drawn_array(value.values, at)
    if isinstance(value, tuple | list):
        return "\n".join(f"({i}) {drawn(item)}" for i, item in enumerate(value, 1))
    return repr(value)[:200]


def worst(expected: np.ndarray, yours: np.ndarray) -> tuple[int, ...]:
    """The leading index of the matrix in which two arrays of one shape differ most."""
    if expected.ndim <= 2 or not expected.size:
        return ()
    with np.errstate(all="ignore"):
        gap = np.nan_to_num(np.abs(yours.astype(float) - expected.astype(float)), nan=np.inf)
    return tuple(int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape)[:-2])


def inputs(arguments: Sequence[Any]) -> str:
    """The arguments of a case, one below the other: small ones whole, larger ones by their shape."""
    lines = []
    for i, value in enumerate(arguments, 1):
        if isinstance(value, np.ndarray):
            text = _drawn_array(value) if value.size <= 12 and value.ndim <= 2 else f"{value.dtype} {value.shape}"
        elif isinstance(value, dict):
            text = ", ".join(f"{key} {np.shape(item)}" for key, item in value.items())
        else:
            text = repr(value)
        head = f"{i}. "
        lines.append(head + text.replace("\n", "\n" + " " * len(head)))
    return "\n".join(lines)


def _drawn_array(values: np.ndarray, at: tuple[int, ...] | None = None) -> str:
    if values.ndim > 2:
        at = at if at is not None and len(at) == values.ndim - 2 else (0,) * (values.ndim - 2)
        if not values.size:
            return f"empty, shape {values.shape}"
        return f"[{', '.join(map(str, at))}] of {values.shape}:\n{_drawn_array(values[at])}"
    cut = values[tuple(slice(0, size) for size in (ROWS, COLUMNS)[-values.ndim :])] if values.ndim else values
    text = np.array2string(cut, precision=4, suppress_small=True, max_line_width=100, floatmode="maxprec")
    return text if cut.shape == values.shape else f"{text}\n(the beginning of {values.shape})"
