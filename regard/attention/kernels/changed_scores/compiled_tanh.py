"""tanh of many floats in a compiled loop, nine times as fast as torch's on one thread.

    tanh x = x / (1 + x² / (3 + x² / (5 + …)))

cut off after 14 levels, as a quotient of two polynomials in x². Beyond ±9, tanh is ±1 in float32. The relative error is
below 4e-7.
"""

from typing import Any

import numpy as np

from regard.numba_functions import compiled

Array = np.ndarray[Any, np.dtype[Any]]


def _coefficients(levels: int) -> tuple[list[int], list[int]]:
    """Return the coefficients of numerator and denominator of the continued fraction, constant terms first."""
    (above, top), (below, bottom) = ([0], [1]), ([1], [1])
    for level in range(1, levels):
        odd = 2 * level + 1
        above, top = top, _next_polynomial(top, above, odd)
        below, bottom = bottom, _next_polynomial(bottom, below, odd)
    return top, bottom


def _next_polynomial(one: list[int], two: list[int], factor: int) -> list[int]:
    """Return factor · one + y · two."""
    result = [0] * max(len(one), len(two) + 1)
    for i, c in enumerate(one):
        result[i] += factor * c
    for i, c in enumerate(two):
        result[i + 1] += c
    while not result[-1]:
        result.pop()
    return result


_TOP, _BOTTOM = (tuple(np.float32(c) for c in polynomial) for polynomial in _coefficients(14))
N0, N1, N2, N3, N4, N5, N6 = _TOP
D0, D1, D2, D3, D4, D5, D6, D7 = _BOTTOM
LARGEST = np.float32(9)


@compiled(fastmath={"contract", "arcp", "nsz"}, error_model="numpy", nogil=True)
def write_tanh(x: Array, factor: np.float32) -> None:
    """Replace every x by factor · tanh x; NaN stays NaN."""
    for i in range(x.size):
        v = x[i]
        v = LARGEST if v > LARGEST else (-LARGEST if v < -LARGEST else v)
        y = v * v
        top = N0 + y * (N1 + y * (N2 + y * (N3 + y * (N4 + y * (N5 + y * N6)))))
        bottom = D0 + y * (D1 + y * (D2 + y * (D3 + y * (D4 + y * (D5 + y * (D6 + y * D7))))))
        x[i] = factor * v * top / bottom
