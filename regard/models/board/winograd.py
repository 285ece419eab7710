"""Winograd's algorithm for 3×3 convolutions (after Toom and Cook): matrices and transforms.

In one dimension, m outputs of a filter g of 3 numbers over m + 2 inputs d, y_k = Σᵢ d_{k+i} gᵢ, take 3·m products.
As a product of polynomials, evaluated at n = m + 2 points and interpolated (transposed), they take n:

    y = Aᵀ [(G g) ⊙ (Bᵀ d)]        points a₁ … aₙ₋₁ and ∞
    A, G    powers of the points, (n, m) and (n, 3), rows of G divided by Πⱼ (aᵢ − aⱼ)
    Bᵀ      row i holds the coefficients of Πⱼ (x − aⱼ) over the other points, the last row over all

In two dimensions this applies to rows and to columns. The products of all channels at one point (i, j) are a matrix
product, (tiles, C_in) × (C_in, C_out): a 6×7 board is 2×2 tiles of 3×4 outputs, 4·5·6 = 120 products in place of 378.
With tiles of at most 4 outputs the rounding error is a few times that of the plain sum
(tests/models/test_board_convolution.py).

The transforms between boards and points are loops whose innermost unit is a vector of channels. `convolution.py` uses
them and has the measured gain.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.numba_functions import compiled as numba_compiled

Floats = NDArray[np.float32]
POINTS = (0.0, 1.0, -1.0, 0.5, -2.0)
TERMS = 6  # number of terms that `_combine` adds, the largest n; shorter sums are padded with zeros

ARITHMETIC: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy"}
compiled = partial(numba_compiled, nogil=True, **ARITHMETIC)
# Inlined, because a function call would take longer than the arithmetic on one vector of channels.
inlined = partial(numba_compiled, inline="always", cache=False, **ARITHMETIC)


@dataclass(frozen=True, eq=False)
class Tiling:
    """One dimension of a board, `size` squares long, cut into tiles of m outputs, which read n = m + 2 inputs each."""

    size: int
    m: int
    tiles: int
    a: Floats  # Aᵀ (m, n), padded with zeros to TERMS columns, as are b and back
    b: Floats  # Bᵀ (n, n)
    back: Floats  # A (n, m), for gradients
    g: NDArray[np.float64]  # G (n, 3)

    @property
    def points(self) -> int:
        return self.m + 2


@lru_cache(maxsize=64)
def tiling(size: int) -> Tiling:
    """Return the tiling with the fewest points; of several, the one with the smallest tiles, which rounds least.

    >>> [(size, tiling(size).m, tiling(size).tiles) for size in (4, 5, 6, 7, 9)]
    [(4, 4, 1), (5, 3, 2), (6, 3, 2), (7, 4, 2), (9, 3, 3)]
    """
    m = min((2, 3, 4), key=lambda m: (-(-size // m) * (m + 2), m))
    at, g, bt = matrices(m)
    return Tiling(size, m, -(-size // m), _pad(at), _pad(bt), _pad(at.T), g)


def matrices(m: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return Aᵀ (m, n), G (n, 3) and Bᵀ (n, n) for m outputs.

    >>> at, g, bt = matrices(2)
    >>> d, f = np.array([1, 2, 3, 4]), np.array([1, 10, 100])
    >>> at @ ((g @ f) * (bt @ d))
    array([321., 432.])
    """
    n = m + 2
    points = np.array(POINTS[: n - 1])
    others = [np.delete(points, i) for i in range(n - 1)]
    a, g = _powers(points, m), _powers(points, 3)
    g[:-1] /= [[np.prod(point - other)] for point, other in zip(points, others, strict=True)]
    bt = np.zeros((n, n))
    for row, roots in zip(bt, [*others, points], strict=True):
        coefficients = np.poly(roots)[::-1]
        row[: len(coefficients)] = coefficients
    return a.T, g, bt


def _powers(points: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return a row of powers for every point; for ∞, only the highest."""
    return np.vstack([np.vander(points, count, increasing=True), np.eye(count)[-1]])


def _pad(matrix: NDArray[np.float64]) -> Floats:
    return np.pad(matrix, ((0, 0), (0, TERMS - matrix.shape[1]))).astype(np.float32)


@inlined
def _combine(by: Any, v0: Any, v1: Any, v2: Any, v3: Any, v4: Any, v5: Any, out: Any) -> None:
    """Compute out = Σ by[i] · vᵢ for vectors vᵢ."""
    b0, b1, b2, b3, b4, b5 = by[0], by[1], by[2], by[3], by[4], by[5]
    for c in range(len(out)):
        out[c] = b0 * v0[c] + b1 * v1[c] + b2 * v2[c] + b3 * v3[c] + b4 * v4[c] + b5 * v5[c]


@compiled
def to_points(x: Any, border: int, rows: Any, columns: Any, m: Any, tiles: Any, out: Any) -> None:
    """Transform every tile of boards x (N, H, W·C): out (points, N · tiles, C).

    border          1 if a tile includes one square beyond its outputs on each side, 0 if not
    rows, columns   the matrices, (n, TERMS) each
    m, tiles        outputs per tile and number of tiles, for rows and columns
    """
    height, width, channels = x.shape[1], x.shape[2], out.shape[2]
    # One band of tiles, transformed along the rows; columns beyond the board stay zero.
    across = max((m[1] * (tiles[1] - 1) + TERMS) * channels, border * channels + width)
    band = np.zeros((len(rows), across), np.float32)
    by, at = np.zeros(TERMS, np.float32), np.zeros(TERMS, np.int64)
    for board in range(len(x)):
        for tile_row in range(tiles[0]):
            for i in range(len(rows)):
                for k in range(TERMS):  # rows beyond the board have coefficient 0
                    row = tile_row * m[0] + k - border
                    inside = 0 <= row < height
                    by[k], at[k] = rows[i, k] if inside else 0, row if inside else 0
                y, to = x[board], band[i, border * channels : border * channels + width]
                _combine(by, y[at[0]], y[at[1]], y[at[2]], y[at[3]], y[at[4]], y[at[5]], to)
            for tile_column in range(tiles[1]):
                tile = (board * tiles[0] + tile_row) * tiles[1] + tile_column
                start = tile_column * m[1] * channels
                for i in range(len(rows)):
                    v = band[i, start : start + TERMS * channels].reshape(TERMS, channels)
                    for j in range(len(columns)):
                        _combine(columns[j], v[0], v[1], v[2], v[3], v[4], v[5], out[i * len(columns) + j, tile])


@compiled
def from_points(
    points: Any, rows: Any, columns: Any, count: Any, tiles: Any, bias: Any, rest: Any, floor: float, out: Any
) -> None:
    """Compute boards out (N, H, W·C) from transformed tiles (points, N · tiles, C): max(sum + bias + rest, floor).

    rows, columns   the matrices, (m, TERMS) each
    count           number of points of rows and columns
    bias            (W·C,)
    rest            (N, H, W·C), or (0, 0, 0) for none
    """
    height, channels = out.shape[1], points.shape[2]
    band = np.zeros((TERMS, len(columns) * tiles[1] * channels), np.float32)
    nothing = np.zeros(channels, np.float32)
    for board in range(len(out)):
        for tile_row in range(tiles[0]):
            for tile_column in range(tiles[1]):
                tile = (board * tiles[0] + tile_row) * tiles[1] + tile_column
                for i in range(count[0]):
                    first, last = i * count[1], count[1]
                    v4 = points[first + 4, tile] if last > 4 else nothing
                    v5 = points[first + 5, tile] if last > 5 else nothing
                    for column in range(len(columns)):
                        start = (tile_column * len(columns) + column) * channels
                        to = band[i, start : start + channels]
                        v0, v1 = points[first, tile], points[first + 1, tile]
                        _combine(columns[column], v0, v1, points[first + 2, tile], points[first + 3, tile], v4, v5, to)
            for a in range(len(rows)):
                row = tile_row * len(rows) + a
                if row < height:
                    to = out[board, row]
                    _combine(rows[a], band[0], band[1], band[2], band[3], band[4], band[5], to)
                    _finish(to, bias, rest[board, row] if len(rest) else bias, len(rest) > 0, floor)


@inlined
def _finish(to: Any, bias: Any, rest: Any, with_rest: bool, floor: float) -> None:
    """Compute to = max(to + bias + rest, floor); NaN stays NaN."""
    for c in range(len(to)):
        total = to[c] + bias[c] + (rest[c] if with_rest else np.float32(0))
        to[c] = np.float32(floor) if total < floor else total
