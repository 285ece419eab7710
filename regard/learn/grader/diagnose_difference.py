"""Describe how a wrong answer differs, if no mistake explains it; the texts are in messages.toml."""

from pathlib import Path
from typing import Any

import numpy as np

from regard.languages import LANGUAGES, Bilingual, bilingual, fill_in, read_texts
from regard.learn.exercise import Exercise
from regard.learn.grader.compare import Difference, is_sequence
from regard.learn.sandbox.serialization import Array, Other

MESSAGES = Path(__file__).with_name("messages.toml")
EMPTY = bilingual("", "")
IN_PART = bilingual(" (in {value})", "（{value}）")


def message_texts(key: str, /, **values: Any) -> tuple[Bilingual, Bilingual]:
    """Return title and message of a key of messages.toml, with the placeholders filled in.

    >>> message_texts("passed", cases=7)[1]["zh"]
    '7 个用例全部一致。'
    """
    entry = read_texts(MESSAGES)[key]
    title, message = ({language: entry[language][part] for language in LANGUAGES} for part in (0, 1))
    return fill_in(title, **values), fill_in(message, **values)


def explain(exercise: Exercise, difference: Difference) -> tuple[str, Bilingual, Bilingual]:
    """Return the kind of an error in the learner's result, and a title and a message that explain it."""
    part = EMPTY if difference.which is None else fill_in(IN_PART, value=result_name(exercise, difference.which))
    expected, yours = difference.expected, difference.yours
    if difference.kind in ("error", "raised", "silent"):
        return _explain_error(difference)
    if difference.kind == "none":
        return "none", *message_texts("none", part=part)
    if isinstance(yours, dict):
        return "kind", *message_texts("dict", expected=_describe_type(expected), yours=_describe_type(yours))
    if difference.kind in ("count", "kind") or not isinstance(expected, Array) or not isinstance(yours, Array):
        key = "count" if difference.kind == "count" and is_sequence(yours) else "kind"
        return key, *message_texts(key, expected=_describe_type(expected), yours=_describe_type(yours), part=part)
    if difference.kind == "shape":
        ours, theirs = expected.values.shape, yours.values.shape
        key = "transposed" if _is_transposed(expected.values, yours.values) else "shape"
        return key, *message_texts(key, expected=ours, yours=theirs, part=part)
    if difference.kind == "dtype":
        key = {"float16": "half-precision", "bfloat16": "half-precision"}.get(yours.dtype, "dtype")
        return "dtype", *message_texts(key, expected=expected.dtype, yours=yours.dtype, part=part)
    if difference.kind == "nan":
        count = int(np.isnan(yours.values).sum())
        return "nan", *message_texts("nan", count=count, size=yours.values.size, part=part)
    return _explain_values(expected.values, yours.values, part)


def result_name(exercise: Exercise, which: int) -> Bilingual:
    """Return the name of a returned value: `weights`, or `weights` of `forward`."""
    name, _, function = (
        exercise.results[which].partition(" of ") if which < len(exercise.results) else (str(which + 1),) * 3
    )
    if not function:
        return bilingual(f"`{name}`", f"`{name}`")
    return bilingual(f"`{name}` of `{function}`", f"`{function}` 的 `{name}`")


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
            if (yours < 0).any():
                return "negative", *message_texts("negative", part=part, smallest=float(yours.min()))
            if not np.allclose(sums, expected.sum(-1), atol=1e-4):
                first = ", ".join(f"{total:.3g}" for total in np.atleast_1d(sums).ravel()[:3])
                return "rows", *message_texts("rows", sums=first + (", …" if sums.size > 3 else ""), part=part)
        if yours.size > 1 and np.ptp(yours) == 0 and np.ptp(expected) > 0:
            return "constant", *message_texts("constant", number=float(yours.flat[0]), part=part)
        factor = constant_factor(expected, yours)
        if factor is not None:
            return "factor", *message_texts("factor", factor=factor, part=part)
        if expected.size > 1 and np.allclose(np.sort(expected, axis=None), np.sort(yours, axis=None), atol=1e-5):
            return "order", *message_texts("order", part=part)
        if np.isinf(yours).any() and not np.isinf(expected).any():
            return "infinite", *message_texts("infinite", count=int(np.isinf(yours).sum()), size=yours.size, part=part)
        largest = float(np.max(np.abs(yours.astype(float) - expected.astype(float))))
    return "values", *message_texts("values", largest=largest, part=part)


def _has_rows_of_sum_one(values: np.ndarray) -> bool:
    if values.ndim == 0 or values.dtype.kind != "f" or values.shape[-1] < 2 or (values < 0).any():
        return False
    sums = values.sum(-1)
    return bool(np.all(np.isclose(sums, 1, atol=1e-4) | (sums == 0)) and np.any(sums))


def constant_factor(expected: np.ndarray, yours: np.ndarray) -> float | None:
    """Return c if the learner's array is c · expected and several entries are not 0; otherwise None."""
    if expected.dtype.kind != "f" or yours.dtype.kind != "f" or np.count_nonzero(expected) < 2:
        return None
    if not (np.isfinite(expected).all() and np.isfinite(yours).all()):
        return None
    factor = float((yours * expected).sum() / (expected * expected).sum())
    return factor if factor and np.allclose(yours, factor * expected, rtol=1e-4, atol=1e-7) else None


def _is_transposed(expected: np.ndarray, yours: np.ndarray) -> bool:
    """Return whether the learner's array is the expected one with two axes exchanged."""
    pairs = [(i, j) for i in range(yours.ndim) for j in range(i)]
    swapped = [yours.swapaxes(i, j) for i, j in pairs]
    return any(
        other.shape == expected.shape and np.allclose(other, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
        for other in swapped
    )


def _describe_type(value: Any) -> str:
    if isinstance(value, Array):
        array_type = "np.ndarray" if value.library == "numpy" else "torch.Tensor"
        return f"{array_type} {value.values.shape}"
    if isinstance(value, Other):
        return value.type
    if is_sequence(value):
        return f"{type(value).__name__} ({', '.join(map(_describe_type, value[:6]))}{', …' if len(value) > 6 else ''})"
    if isinstance(value, dict):
        return f"dict ({', '.join(map(repr, list(value)[:6]))})"
    return type(value).__name__
