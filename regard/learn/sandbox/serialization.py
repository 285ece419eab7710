"""Serialize values exchanged with the child process; nothing in the bytes can be executed.

A value is a JSON tree followed by the raw numbers of its arrays:

    8 bytes: length of the tree · the tree, in which an array is its dtype, shape and position · the numbers

The output of a learner's process is not trusted. `np.load` would allocate as much memory as the header of an .npz
claims; here an array cannot be larger than the bytes present.

The child loads this file without the rest of regard.
"""

import json
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from regard.learn.sandbox.visible_text import visible_text

DTYPES = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
}  # fmt: skip
MAX_DEPTH = 12  # nesting of tuples, lists and dicts
MAX_TREE = 4 << 20  # bytes of JSON that are parsed; arrays are not in it
MAX_NAME = 100  # characters of the name of a type or dtype


class Array(NamedTuple):
    """An unpacked array: its numbers, its library, and its dtype in that library (NumPy has no bfloat16)."""

    values: np.ndarray
    library: str
    dtype: str


class Other(NamedTuple):
    """A value that cannot be serialized, represented by the name of its type."""

    type: str


def pack(value: Any) -> bytes:
    """Return the value as bytes.

    >>> unpack(pack((1, None, [2.5, "text"], b"raw")))
    (1, None, [2.5, 'text'], b'raw')
    """
    numbers: list[bytes] = []
    tree = json.dumps(_tree(value, numbers, 0)).encode()
    return b"".join([struct.pack("<Q", len(tree)), tree, *numbers])


def unpack(data: bytes, build: Callable[[np.ndarray, str, str], Any] = Array) -> Any:
    """Return the value in the bytes, with arrays from `build(values, library, dtype)`; ValueError if they are damaged.

    >>> unpack(pack(np.eye(1)))
    Array(values=array([[1.]]), library='numpy', dtype='float64')
    >>> unpack(b"")
    Traceback (most recent call last):
    ValueError: not a packed value
    """
    try:
        (length,) = struct.unpack_from("<Q", data)
        if length > MAX_TREE:
            raise ValueError(f"a tree may have {MAX_TREE} bytes, got {length}")
        tree = json.loads(data[8 : 8 + length])
        return _value(tree, Numbers(memoryview(data)[8 + length :]), build)
    except (struct.error, KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError("not a packed value") from error


def native(values: np.ndarray, library: str, dtype: str) -> Any:
    """Return a writable copy as an array of the named library: NumPy or torch."""
    if library == "numpy":
        return values.copy()
    import torch

    return torch.from_numpy(values.copy())


def _tree(value: Any, numbers: list[bytes], depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        return {"other": "a deeply nested " + type(value).__name__}
    if isinstance(value, Array):
        return _array(value.values, value.library, value.dtype, numbers)
    if value is None or isinstance(value, bool | str):
        return {"plain": value}
    if isinstance(value, int | float) and not isinstance(value, np.generic):
        return {"plain": value} if abs(value) < 2**63 or value != value or isinstance(value, float) else _other(value)
    if isinstance(value, bytes):
        return {"bytes": _append(value, numbers)}
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_tree(item, numbers, depth + 1) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _tree(item, numbers, depth + 1) for key, item in value.items()}}
    if any(base.__module__.partition(".")[0] == "torch" for base in type(value).__mro__) and hasattr(value, "detach"):
        plain = value.detach().cpu()
        dtype = str(plain.dtype).removeprefix("torch.")
        return _array((plain if dtype in DTYPES else plain.float()).numpy(), "torch", dtype, numbers)
    if isinstance(value, np.ndarray | np.generic):
        return _array(np.asarray(value), "numpy", value.dtype.name, numbers)
    return _other(value)


def _array(values: np.ndarray, library: str, dtype: str, numbers: list[bytes]) -> dict[str, Any]:
    if values.dtype == np.longdouble:
        values, dtype = values.astype(np.float64), "float64"
    if values.dtype.name not in DTYPES:
        return {"other": f"an array of {values.dtype.name}"}
    shape = list(values.shape)  # before ascontiguousarray, which adds an axis to a scalar
    raw = np.ascontiguousarray(values).tobytes()
    return {"array": [values.dtype.name, shape, _append(raw, numbers), library, dtype]}


def _append(raw: bytes, numbers: list[bytes]) -> list[int]:
    start = sum(map(len, numbers))
    numbers.append(raw)
    return [start, len(raw)]


def _other(value: Any) -> dict[str, str]:
    return {"other": type(value).__name__}


class Numbers:
    """The bytes after the tree. They are read once and in order: a few bytes cannot become gigabytes of values."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.read = data, 0

    def take(self, position: list[int]) -> memoryview:
        """Return the bytes at a position (start, length)."""
        start, length = position
        if not self.read == start <= start + length <= len(self.data):
            raise ValueError(f"expected bytes from {self.read} to at most {len(self.data)}, got {start} + {length}")
        self.read = start + length
        return self.data[start : start + length]


def _value(tree: dict[str, Any], numbers: Numbers, build: Callable[[np.ndarray, str, str], Any]) -> Any:
    ((kind, content),) = tree.items()
    if kind == "plain":
        return content
    if kind == "other":
        return Other(visible_text(str(content), MAX_NAME))
    if kind == "bytes":
        return bytes(numbers.take(content))
    if kind in ("tuple", "list"):
        items = [_value(item, numbers, build) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        return {key: _value(item, numbers, build) for key, item in content.items()}
    if kind != "array" or content[0] not in DTYPES:
        raise ValueError(f"expected an array of a known dtype, got the kind {kind!r}")
    stored, shape, position, library, dtype = content
    values = np.frombuffer(numbers.take(position), dtype=stored).reshape(shape)
    return build(values, visible_text(str(library), MAX_NAME), visible_text(str(dtype), MAX_NAME))
