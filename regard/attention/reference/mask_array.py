"""Conversion of masks to boolean arrays.

A mask is an array of booleans, True where a query may see a key, or an object with a method `numpy` that returns such
an array for given L and S, like the masks of `regard.masks`.
"""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from regard.attention.reference.shape_checks import check_broadcast

Array = np.ndarray


@runtime_checkable
class MaskRule(Protocol):
    """A mask that is converted to an array when the lengths are known, like those of `regard.masks`."""

    def numpy(self, queries: int, keys: int, /) -> Array:
        """Return the visible pairs of L queries and S keys: (L, S), or (B or 1, H or 1, L, S)."""


MaskLike = Array | MaskRule


def visible(mask: MaskLike, scores: tuple[int, ...]) -> Bool[Array, "..."]:
    """Return the visible pairs in a shape that broadcasts to the scores (with L = 1 for a single query).

    >>> visible(np.tri(3, dtype=bool)[None, None], (3, 3)).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    shape = (1, *scores) if len(scores) == 1 else scores
    pairs = np.asarray(mask if isinstance(mask, Array) else mask.numpy(*shape[-2:]))
    if pairs.dtype != np.bool_:
        raise TypeError(
            f"mask must be boolean, True where a query may see a key, got {pairs.dtype}; "
            "for a mask of 0 (hidden) and 1 write mask != 0, and pass numbers to be added as bias="
        )
    return pairs.reshape(check_broadcast("mask", pairs.shape, shape))
