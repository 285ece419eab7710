"""Format arrays as short text, for a learner to compare."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.learn.sandbox.serialization import Array, Other

MAX_ROWS, MAX_COLUMNS = 6, 8


def format_pair(expected: Any, yours: Any) -> tuple[str, str]:
    """Return two values as text, cropped around their largest difference, with enough decimals to show it.

    >>> one = Array(np.array([1.0, 2.0]), "numpy", "float64")
    >>> format_pair(one, Array(np.array([1.0, 2.000004]), "numpy", "float64"))
    ('[1. 2.]', '[1.       2.000004]')
    """
    at = None
    if isinstance(expected, Array) and isinstance(yours, Array) and expected.values.shape == yours.values.shape:
        at = _index_of_largest_difference(expected.values, yours.values)
    for precision in (4, 6, 9, 12, 17):
        texts = format_value(expected, at, precision), format_value(yours, at, precision)
        if texts[0] != texts[1]:
            break
    return texts


def format_value(value: Any, at: tuple[int, ...] | None = None, precision: int = 4) -> str:
    """Return a value as a few lines of text; a large array is cropped to a part that contains the index `at`.

    >>> print(format_value(Array(np.eye(2), "numpy", "float64")))
    [[1. 0.]
     [0. 1.]]
    """
    if isinstance(value, Other):
        return value.type
    if isinstance(value, dict) and "message" in value and "type" in value:
        return f"{value['type']}: {value['message']}"
    if isinstance(value, Array):
        return _format_array(value.values, at, precision)
    if isinstance(value, tuple | list):
        return "\n".join(f"({i}) {format_value(item)}" for i, item in enumerate(value, 1))
    return repr(value)[:200]


def format_inputs(names: Sequence[str], arguments: Sequence[Any]) -> str:
    """Return the arguments of a case, one per line; a large array is shown by its shape.

    >>> print(format_inputs(["x", "heads"], [np.zeros((2, 3, 4)), 2]))
    x = float64 (2, 3, 4)
    heads = 2
    """
    lines = []
    for name, value in zip(names, arguments, strict=False):  # an argument with a default may be missing
        head = f"{name} = "
        lines.append(head + _format_input(value).replace("\n", "\n" + " " * len(head)))
    return "\n".join(lines)


def _format_input(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=4) if value.size <= 16 else f"{value.dtype} {value.shape}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {np.shape(item)}" for key, item in value.items())
    if isinstance(value, tuple | list) and any(isinstance(item, np.ndarray) for item in value):
        return ", ".join(map(_format_input, value))
    return repr(value)


def _index_of_largest_difference(expected: np.ndarray, yours: np.ndarray) -> tuple[int, ...] | None:
    """Return the index of the largest difference of two arrays of the same shape."""
    if not expected.size:
        return None
    with np.errstate(all="ignore"):
        gap = np.nan_to_num(np.abs(yours.astype(complex) - expected.astype(complex)), nan=np.inf)
    return tuple(int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape))


def _format_array(values: np.ndarray, at: tuple[int, ...] | None = None, precision: int = 4) -> str:
    if not values.size:
        return f"empty, shape {values.shape}"
    at = at or (0,) * values.ndim
    leading, at = at[: max(values.ndim - 2, 0)], at[max(values.ndim - 2, 0) :]
    limits = (MAX_ROWS, MAX_COLUMNS)[2 - len(at) :]
    starts = [max(0, place - limit + 1) for place, limit in zip(at, limits, strict=True)]
    matrix = values[leading]
    crop = matrix[tuple(slice(start, start + limit) for start, limit in zip(starts, limits, strict=True))]
    text = np.array2string(crop, precision=precision, suppress_small=True, max_line_width=100, floatmode="maxprec")
    if crop.shape == values.shape:
        return text
    spans = [f"{a}:{a + n}" for a, n in zip(starts, crop.shape, strict=True)]
    return f"[{', '.join([*map(str, leading), *spans])}] of {values.shape}\n{text}"
