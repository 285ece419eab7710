"""Compiled loops over rows of scores: all statistics of a row in one pass, while the row is in the CPU cache.

For a row s of scores,

    x_j = s_j − m        e_j = e^x_j = 2^n e^y,  |y| ≤ ½ ln 2        z = Σ e_j        w_j = e_j / z
    entropy  ln z − Σ e_j x_j / z            log-sum-exp  m + ln z

with 2^n from the bits of a float and e^y from a polynomial. m is the maximum; in long rows 0 if the maximum is small:
then x is s itself, without the rounding of a difference, which would be the largest error of the mean position.

Within a chunk of 128 keys, or of 32 in long rows, sums are in float32, with positions counted from its middle; over
chunks they are in float64.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from regard.numba_functions import compiled

CHUNK, LONG, SHORT_CHUNK = 128, 8192, 32  # keys of a chunk; rows of more than LONG keys have short chunks
# results of `describe` for a row: entropy, mean position, spread, weight on the sinks, log-sum-exp, largest score
COLUMNS = 6

Array = np.ndarray[Any, np.dtype[Any]]

# Sums may be reordered, so that eight are computed at a time. NaN and infinity keep their meaning.
REORDER_SUMS = {"contract", "reassoc", "nsz"}

LOG2E, LN2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
# e^y for |y| ≤ ½ ln 2 to 7e-8: the polynomial of degree 5 with e⁰ = 1 and the smallest relative error (Remez).
ONE, C1, C2, C3, C4, C5 = (
    np.float32(c) for c in (1.0, 0.999999162, 0.499989912, 0.1666857684, 0.04191282027, 0.008251735868)
)
LOWEST = np.float32(-127 * 0.6931471805599453)  # e^x below is computed as 0
SMALL = np.float32(32)  # maxima up to this size are not subtracted: e³² is far from the largest float
ULPS, BIAS = np.float32(2.0**23), np.float32(127 * 2.0**23)  # (n + 127)·2²³, read as a float, is 2^n


def _larger_of(context: Any, a: Any, b: Any) -> Any:
    """Return the larger of two numbers, in a form that compiles to one instruction for eight pairs of them."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y = arguments
        flags = ("nnan", "nsz")
        return builder.select(builder.fcmp_ordered(">", x, y, flags=flags), x, y, flags=flags)

    return types.float32(types.float32, types.float32), build


_larger: Any = intrinsic(_larger_of)


@compiled(nogil=True)
def _largest(row: Array) -> Any:
    """Return the largest number of a row; NaN is ignored."""
    largest = row[0]
    for j in range(row.shape[0]):
        largest = _larger(row[j], largest)
    return largest


@compiled(nogil=True, fastmath=REORDER_SUMS, error_model="numpy")
def _sums(row: Array, shift: Any, half: Any) -> Any:
    """Return Σe, Σe·x, Σe·u, Σe·u² of a chunk, with u the position from `half`; overwrite the row with e."""
    z = zx = zu = zuu = np.float32(0)
    u = -half
    for j in range(row.shape[0]):
        x = row[j] - shift
        x = LOWEST if x < LOWEST else x  # in this form NaN stays NaN
        n = np.rint(x * LOG2E)
        y = x - n * LN2
        e = (((((C5 * y + C4) * y + C3) * y + C2) * y + C1) * y + ONE) * np.int32(n * ULPS + BIAS).view(np.float32)
        row[j] = e
        z += e
        zx += e * x
        zu += e * u
        zuu += e * u * u
        u += ONE
    return z, zx, zu, zuu


@compiled(nogil=True, fastmath=REORDER_SUMS)
def _add_scaled(row: Array, factor: Any, total: Array) -> None:
    for j in range(row.shape[0]):
        total[j] += row[j] * factor


@compiled(nogil=True)
def _is_empty(row: Array, largest: Any) -> bool:
    if largest > -np.inf or np.isnan(largest):
        return False
    for x in row:  # noqa: SIM110 (compiled)
        if np.isnan(x):  # `_largest` ignores NaN
            return False
    return True


@compiled(nogil=True, error_model="numpy")
def describe(
    scores: Array,  # (heads · per_head, keys), float32; overwritten
    rows: tuple[int, int],  # first row to process, and the row after the last
    per_head: int,  # rows of a head
    triangular: bool,  # whether the last row of a head sees all keys, the row before it one key less, and so on
    first_key: int,
    sinks: Array,  # keys whose total weight is computed
    head_total: Array,  # (≥ keys,) float32, scratch memory
    results: Array,  # (heads · per_head, COLUMNS) float64
    received: Array,  # (heads, S) float64: the weight that each key receives is added
) -> None:
    """Compute the statistics of some rows of a block of scores."""
    keys = scores.shape[1]
    for r in range(rows[0], rows[1]):
        i = r % per_head
        if i == 0 or r == rows[0]:
            head_total[:keys] = 0
        row = scores[r, : keys - (per_head - 1 - i) * triangular]
        largest = _largest(row)
        if _is_empty(row, largest):
            results[r] = 0.0
            results[r, 4] = results[r, 5] = -np.inf
        else:
            long = row.shape[0] > LONG
            shift = np.float32(0) if long and np.abs(largest) <= SMALL else largest
            z = zx = zp = zpp = sink = 0.0
            chunk = SHORT_CHUNK if long else CHUNK
            half = np.float32(chunk / 2)
            for start in range(0, row.shape[0], chunk):
                a, ax, au, auu = _sums(row[start : start + chunk], shift, half)
                middle = float(first_key + start + chunk // 2)
                z += a
                zx += ax
                zp += au + middle * a
                zpp += auu + 2 * middle * au + middle * middle * a
            for j in sinks:
                if first_key <= j < first_key + row.shape[0]:
                    sink += row[j - first_key]
            mean = zp / z
            entropy, variance = np.log(z) - zx / z, zpp / z - mean * mean
            results[r, 0] = 0.0 if entropy < 0.0 else entropy  # NaN stays
            results[r, 1] = mean
            results[r, 2] = 0.0 if variance < 0.0 else np.sqrt(variance)
            results[r, 3] = sink / z
            results[r, 4] = shift + np.log(z)
            results[r, 5] = largest if z == z else np.nan  # `_largest` ignores NaN
            _add_scaled(row, np.float32(1.0 / z), head_total)
        if i == per_head - 1 or r == rows[1] - 1:
            total = received[r // per_head]
            for j in range(keys):
                total[first_key + j] += head_total[j]


@compiled(nogil=True)
def _insert(values: Array, positions: Array, x: Any, position: int) -> None:
    """Insert x into the descending list and drop its last value, unless that is larger; of equals the first is kept."""
    i = values.shape[0] - 1
    if values[i] > x or (values[i] == x and positions[i] < position):
        return
    while i > 0 and (values[i - 1] < x or (values[i - 1] == x and positions[i - 1] > position)):
        values[i], positions[i] = values[i - 1], positions[i - 1]
        i -= 1
    values[i], positions[i] = x, position


@compiled(nogil=True)
def _maxima(row: Array, out: Array) -> None:
    """Set out[j] to the maximum of row[j], row[j + w], row[j + 2w], …, where w is the length of `out`."""
    width = out.shape[0]
    out[:] = row[:width]
    for start in range(width, row.shape[0], width):
        line = row[start : start + width]
        for j in range(line.shape[0]):
            out[j] = _larger(line[j], out[j])


@compiled(nogil=True, fastmath=REORDER_SUMS)
def _count_at_least(values: Array, x: Any) -> Any:
    """Return how many of the values are x or more."""
    count = np.float32(0)
    for j in range(values.shape[0]):
        count += ONE if values[j] >= x else np.float32(0)
    return count


@compiled(nogil=True)
def largest_scores(
    scores: Array,  # (heads · per_head, keys), float32
    rows: tuple[int, int],
    per_head: int,
    triangular: bool,
    first_key: int,
    maxima: Array,  # (≥ keys + 2 count,) float32, scratch memory
    values: Array,  # (heads · per_head, count) float32
    positions: Array,  # (heads · per_head, count) int64
) -> None:
    """Find the largest scores of some rows and their keys; −inf and −1 where fewer keys are visible.

    The n-th largest of the maxima of 2n groups of keys is a threshold: at least n scores of the row reach it, and all
    smaller ones are skipped. To form groups, the row is written in lines of equal length; each column is a group. The
    columns of long lines are merged into 2n groups, and only columns whose maximum reaches the threshold are searched.
    """
    keys, count = scores.shape[1], values.shape[1]
    for r in range(rows[0], rows[1]):
        row = scores[r, : keys - (per_head - 1 - r % per_head) * triangular]
        n, group_count = row.shape[0], 2 * count
        best, best_keys = values[r], positions[r]
        best[:] = -np.inf
        best_keys[:] = -1
        threshold = np.float32(-np.inf)
        columns, groups = row, row
        if n > group_count:
            size = group_count * max(1, int(np.sqrt(n / (4 * group_count))))
            columns, groups = maxima[:size], maxima[size : size + group_count]
            _maxima(row, columns)
            _maxima(columns, groups)
            for x in groups:
                if x > threshold and _count_at_least(groups, x) >= count:
                    threshold = x
        for column in range(columns.shape[0]):
            if columns[column] >= threshold:
                for j in range(column, n, columns.shape[0]):
                    if row[j] >= threshold and row[j] > -np.inf:
                        _insert(best, best_keys, row[j], first_key + j)
