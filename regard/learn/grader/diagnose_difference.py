"""Describe how a wrong answer that matches no known mistake differs; the texts are in messages.toml."""

from pathlib import Path
from typing import Any

import numpy as np

from regard.languages import LANGUAGES, Bilingual, bilingual, fill_in, read_texts
from regard.learn.grader.compare import Difference
from regard.learn.sandbox.serialization import Array, Other

MESSAGES = Path(__file__).with_name("messages.toml")
EMPTY = bilingual("", "")


def message_texts(key: str, /, **values: Any) -> tuple[Bilingual, Bilingual]:
    """Return title and message of a key of messages.toml, with the placeholders filled in.

    >>> message_texts("passed", cases=7)[1]["zh"]
    '7 个用例全部一致。'
    """
    entry = read_texts(MESSAGES)[key]
    title, message = ({language: entry[language][part] for language in LANGUAGES} for part in (0, 1))
    return fill_in(title, **values), fill_in(message, **values)


def explain(difference: Difference) -> tuple[str, Bilingual, Bilingual]:
    """Return the kind of an error in the learner's result, and a title and a message that explain it."""
    part = _part(difference.which)
    expected, yours = difference.expected, difference.yours
    if difference.kind in ("error", "raised", "silent"):
        return _explain_error(difference)
    if difference.kind == "count":
        return "count", *message_texts("count", expected=_describe_type(expected), yours=_describe_type(yours))
    if difference.kind in ("none", "kind"):
        return difference.kind, *message_texts(
            difference.kind, expected=_describe_type(expected), yours=_describe_type(yours), part=part
        )
    if not isinstance(expected, Array) or not isinstance(yours, Array):
        return "kind", *message_texts("kind", expected=repr(expected), yours=repr(yours), part=part)
    if difference.kind == "shape":
        ours, theirs = expected.values.shape, yours.values.shape
        key = "transposed" if ours in _shapes_with_two_axes_swapped(theirs) else "shape"
        return key, *message_texts(key, expected=ours, yours=theirs, part=part)
    if difference.kind == "dtype":
        return "dtype", *message_texts("dtype", expected=expected.dtype, yours=yours.dtype, part=part)
    if difference.kind == "nan":
        count = int(np.isnan(yours.values).sum())
        return "nan", *message_texts("nan", count=count, size=yours.values.size, part=part)
    return _explain_values(expected.values, yours.values, part)


def _explain_error(difference: Difference) -> tuple[str, Bilingual, Bilingual]:
    error = difference.yours
    if difference.kind == "silent":
        return "silent", *message_texts("silent", expected_type=difference.expected["type"])
    if error["type"] == "NotImplementedError":
        return "unwritten", *message_texts("unwritten", line=error["line"])
    if error["type"] in ("SystemExit", "KeyboardInterrupt"):
        return "exit", *message_texts("exit")
    if difference.kind == "raised":
        return "raised", *message_texts(
            "raised", expected_type=difference.expected["type"], where=error_location(error), **error
        )
    return "error", *message_texts("error", where=error_location(error), **error)


def error_location(error: dict[str, Any]) -> Bilingual:
    """Return the line of the learner's code that raised an error; empty if no line did."""
    if error["line"] is None:
        return EMPTY
    return bilingual(f"Line {error['line']}, `{error['text']}`: ", f"第 {error['line']} 行 `{error['text']}`：")


def _explain_values(expected: np.ndarray, yours: np.ndarray, part: Bilingual) -> tuple[str, Bilingual, Bilingual]:
    with np.errstate(all="ignore"):
        if _has_rows_of_sum_one(expected):
            sums = yours.sum(-1)
            if expected.ndim > 1 and np.allclose(yours.sum(-2), 1, atol=1e-4) and not np.allclose(sums, 1, atol=1e-4):
                return "wrong-axis", *message_texts("wrong-axis", part=part)
            if not np.allclose(sums, expected.sum(-1), atol=1e-4):
                first = ", ".join(f"{total:.3g}" for total in np.atleast_1d(sums).ravel()[:3])
                return "rows", *message_texts("rows", sums=first + (", …" if sums.size > 3 else ""), part=part)
        factor = _factor(expected, yours)
        if factor is not None:
            return "factor", *message_texts("factor", factor=factor, part=part)
        if expected.size > 1 and np.allclose(np.sort(expected, axis=None), np.sort(yours, axis=None), atol=1e-5):
            return "order", *message_texts("order", part=part)
        largest = float(np.max(np.abs(yours.astype(float) - expected.astype(float))))
    return "values", *message_texts("values", largest=largest, part=part)


def _has_rows_of_sum_one(values: np.ndarray) -> bool:
    if values.ndim == 0 or values.dtype.kind != "f" or values.shape[-1] < 2 or (values < 0).any():
        return False
    sums = values.sum(-1)
    return bool(np.all(np.isclose(sums, 1, atol=1e-4) | (sums == 0)) and np.any(sums))


def _factor(expected: np.ndarray, yours: np.ndarray) -> float | None:
    """Return c if the learner's array is c · expected and several entries are not 0; otherwise None."""
    if expected.dtype.kind != "f" or yours.dtype.kind != "f" or np.count_nonzero(expected) < 2:
        return None
    factor = float((yours * expected).sum() / (expected * expected).sum())
    return factor if factor and np.allclose(yours, factor * expected, rtol=1e-4, atol=1e-7) else None


def _shapes_with_two_axes_swapped(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    pairs = [(i, j) for i in range(len(shape)) for j in range(i)]
    return [tuple(shape[{i: j, j: i}.get(axis, axis)] for axis in range(len(shape))) for i, j in pairs]


def _describe_type(value: Any) -> str:
    if isinstance(value, Array):
        array_type = "np.ndarray" if value.library == "numpy" else "torch.Tensor"
        return f"{array_type} {value.values.shape}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__} ({', '.join(map(_describe_type, value))})"
    return value.type if isinstance(value, Other) else type(value).__name__


def _part(which: int | None) -> Bilingual:
    if which is None:
        return EMPTY
    return bilingual(f" (returned value number {which + 1})", f"（返回的第 {which + 1} 个值）")
