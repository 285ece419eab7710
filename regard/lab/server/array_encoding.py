"""Exact and compact encoding of arrays for the page.

A map of 512 × 512 weights is five megabytes of decimals, and one megabyte as the bytes of its numbers, without loss.
`static/kit/arrays.js` decodes it.
"""

import base64
from typing import Any

import numpy as np

KINDS = {"float32": "<f4", "float64": "<f8", "uint8": "|u1", "bool": "|u1"}


def encode_array(array: Any) -> dict[str, Any]:
    """Return the array's shape, the type of its numbers and their bytes (little-endian, base 64).

    >>> encode_array(np.array([[0.5, 0.25]], dtype=np.float32))
    {'shape': [1, 2], 'kind': 'float32', 'bytes': 'AAAAPwAAgD4='}
    """
    array = np.asarray(array)
    name = array.dtype.name
    if name not in KINDS:
        raise TypeError(f"the array must have one of the types {', '.join(KINDS)}, got {name}")
    content = np.ascontiguousarray(array, dtype=KINDS[name]).tobytes()
    kind = "uint8" if name == "bool" else name
    return {"shape": list(array.shape), "kind": kind, "bytes": base64.b64encode(content).decode()}
