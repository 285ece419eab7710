"""Arrays as they are sent to the page: exact, and small.

A map of 512 × 512 weights is five megabytes of decimals. As the bytes of its numbers it is one, and not a bit of any
number is lost on the way; `static/kit/packed.js` reads it.
"""

import base64
from typing import Any

import numpy as np

KINDS = {"float32": "<f4", "float64": "<f8", "uint8": "|u1", "bool": "|u1"}


def packed(array: Any) -> dict[str, Any]:
    """The array's shape, the kind of its numbers and their bytes, little end first.

    >>> packed(np.array([[0.5, 0.25]], dtype=np.float32))
    {'shape': [1, 2], 'kind': 'float32', 'bytes': 'AAAAPwAAgD4='}
    """
    array = np.asarray(array)
    name = array.dtype.name
    if name not in KINDS:
        raise TypeError(f"arrays of {', '.join(KINDS)} can be packed, got {name}")
    content = np.ascontiguousarray(array, dtype=KINDS[name]).tobytes()
    kind = "uint8" if name == "bool" else name
    return {"shape": list(array.shape), "kind": kind, "bytes": base64.b64encode(content).decode()}
