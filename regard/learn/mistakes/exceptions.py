"""The typical cause of an error that a learner's code raises, from its type, message, line and the shapes in it."""

import re
from collections.abc import Sequence
from typing import Any

from regard.learn.exercise import Exercise

SHAPES = re.compile(r"\((\d+(?:,\s*\d+)*),?\)")
TORCH_ONLY = (
    "masked_fill", "softmax", "view", "permute", "unsqueeze", "matmul", "mm", "bmm", "relu", "clamp", "cat", "float",
    "size", "dim", "triu", "tril", "expand", "contiguous", "t", "sqrt", "exp", "log", "chunk", "unbind",
)  # fmt: skip


def cause_of(
    exercise: Exercise, source: str, error: dict[str, Any], failing: Sequence[int], axes: Sequence[int]
) -> str | None:
    """Return the key of the cause of an error in messages.toml or texts.toml; None if it is not certain.

    `failing` are the indices of the cases that raise an error, `axes` the number of axes of the first array of each
    case.
    """
    kind, message, line = error["type"], error["message"], error["text"]
    many_axes = all(axes[i] > 2 for i in failing) and any(n <= 2 for n in axes)
    if kind in ("ValueError", "RuntimeError") and _one_axis_less(message):
        return "no-keepdims" if exercise.uses == "numpy" else "no-keepdim"
    if "boolean index did not match" in message or "shape of the mask" in message:
        return "mask-not-broadcast"
    if re.search(r"\.T\b|\.t\(\)|transpose\(\)", line) and many_axes:
        return "reversed-axes"
    if exercise.uses == "numpy" and many_axes and re.search(r"\bnp\.dot\(|\.dot\(", source):
        return "dot-of-batches"
    if "before Module.__init__() call" in message:
        return "super-init-missing"
    without_batch = [i for i, n in enumerate(axes) if n == 2]
    if set(axes) == {2, 3} and list(failing) == without_batch:
        return "batch-required"
    if kind == "AxisError" and re.search(r"axis 1 is out of bounds for array of dimension 1", message):
        return "fixed-axis"
    if "view size is not compatible" in message:
        return "not-contiguous"
    if _mismatched_product(message) and _plain_product(line) and not many_axes:
        return "missing-transpose" if "K" in line.upper() and exercise.name[:2] not in ("09", "14") else None
    if "same dtype" in message or "expected scalar type" in message or "same data type" in message:
        return "dtypes-differ"
    if kind == "AttributeError" and exercise.uses == "numpy":
        name = re.search(r"has no attribute '(\w+)'", message)
        return "torch-function" if name and name[1] in TORCH_ONLY else None
    if kind == "TypeError" and "keyword argument 'dim'" in message and exercise.uses == "numpy":
        return "torch-argument"
    if kind == "TypeError" and (
        "'invert' not supported" in message or "bitwise_not" in message or "~ (operator" in message
    ):
        return "mask-not-boolean"
    if kind == "NameError" and re.search(r"name '(np|torch|math|nn|F|rearrange|numpy)' is not defined", message):
        return "import-missing"
    if kind in ("TypeError", "AttributeError") and re.search(r"'NoneType' object|and 'NoneType'|NoneType", message):
        return "none-used"
    if kind == "TypeError" and re.search(r"positional argument|unexpected keyword", message) and not line:
        return "signature"
    if _mismatched_product(message) or "could not be broadcast" in message or "is invalid for input of size" in message:
        return "sizes-differ"
    return None


def _one_axis_less(message: str) -> bool:
    """Return whether two shapes cannot be broadcast because one of them lacks the last axis of the other."""
    if "could not be broadcast together" in message:
        shapes = [tuple(map(int, text.replace(" ", "").rstrip(",").split(","))) for text in SHAPES.findall(message)]
        return len(shapes) >= 2 and (shapes[1] == shapes[0][:-1] or shapes[0] == shapes[1][:-1])
    return False


def _mismatched_product(message: str) -> bool:
    return any(
        text in message
        for text in ("mismatch in its core dimension", "mat1 and mat2 shapes cannot be multiplied", "not aligned",
                     "Expected size for first two dimensions of batch2", "must match the size of tensor b")
    )  # fmt: skip


def _plain_product(line: str) -> bool:
    """Return whether a line multiplies two matrices without exchanging any axes."""
    product = "@" in line or "matmul" in line or ".dot(" in line or "bmm(" in line
    return product and not re.search(
        r"\.T\b|\.mT\b|\.t\(|transpose|swapaxes|permute|moveaxis|einsum|reshape|view", line
    )
