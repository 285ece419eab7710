"""Compiled loops over rows of scores: all statistics of a row while it lies in the processor's nearest memory.

For a row s of scores with the largest m, in powers of two because those are a few bits away from a float:

    t_j = (s_j − m) log₂e        e_j = 2^t_j        z = Σ e_j        w_j = e_j / z
    entropy  ln z − ln 2 · Σ e_j t_j / z            log-sum-exp  m + ln z

Sums run in float32 over chunks of 128 keys, places counted from the middle of the chunk, and in float64 over chunks.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from regard.compiled import compiled

CHUNK = 128
COLUMNS = 5  # what `describe` finds of a row: entropy, mean place, spread, mass on the sinks, log-sum-exp

Array = np.ndarray[Any, np.dtype[Any]]

# What sums may do: change their order, so that eight are made at a time. NaN and infinity keep their meaning.
SUMS = {"contract", "reassoc", "nsz"}

LOG2E, LN2 = np.float32(1.4426950408889634), 0.6931471805599453
# 2^y for |y| ≤ ½ to 7e-8: the polynomial of degree 5 with 2⁰ = 1 whose relative error is smallest (Remez).
ONE, C1, C2, C3, C4, C5 = (np.float32(c) for c in (1.0, 0.69314660, 0.24022166, 0.05551047, 0.00967495, 0.00132030))
LOWEST = np.float32(-127.0)  # 2^−127 is 0 here
ULPS, BIAS = np.float32(2.0**23), np.float32(127 * 2.0**23)  # (n + 127)·2²³, read as a float, is 2^n
HALF = np.float32(CHUNK / 2)


def _larger_of(context: Any, a: Any, b: Any) -> Any:
    """The larger of two; a comparison written in Python is not turned into one instruction for eight of them."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y = arguments
        flags = ("nnan", "nsz")
        return builder.select(builder.fcmp_ordered(">", x, y, flags=flags), x, y, flags=flags)

    return types.float32(types.float32, types.float32), build


_larger: Any = intrinsic(_larger_of)


@compiled(nogil=True)
def _largest(row: Array) -> Any:
    found = row[0]
    for j in range(row.shape[0]):
        found = _larger(row[j], found)
    return found


@compiled(nogil=True, fastmath=SUMS, error_model="numpy")
def _sums(row: Array, largest: Any) -> Any:
    """Σe, Σe·t, Σe·u, Σe·u² of a chunk, with u the place from its middle; the row becomes e."""
    z = zt = zu = zuu = np.float32(0)
    u = -HALF
    for j in range(row.shape[0]):
        t = (row[j] - largest) * LOG2E
        t = LOWEST if t < LOWEST else t  # written so that NaN stays
        n = np.rint(t)
        y = t - n
        e = (((((C5 * y + C4) * y + C3) * y + C2) * y + C1) * y + ONE) * np.int32(n * ULPS + BIAS).view(np.float32)
        row[j] = e
        z += e
        zt += e * t
        zu += e * u
        zuu += e * u * u
        u += ONE
    return z, zt, zu, zuu


@compiled(nogil=True, fastmath=SUMS)
def _give(row: Array, share: Any, gained: Array) -> None:
    for j in range(row.shape[0]):
        gained[j] += row[j] * share


@compiled(nogil=True)
def _is_empty(row: Array, largest: Any) -> bool:
    if largest > -np.inf or np.isnan(largest):
        return False
    for x in row:  # noqa: SIM110 (compiled)
        if np.isnan(x):  # the largest does not see those
            return False
    return True


@compiled(nogil=True, error_model="numpy")
def describe(
    scores: Array,  # (heads · per, keys), float32; overwritten
    rows: tuple[int, int],  # which of them
    per: int,  # rows of a head
    stairs: bool,  # whether the last row of a head sees all keys, the one before it one less, and so on
    first: int,  # the first key
    sinks: Array,  # keys whose weight is wanted
    gained: Array,  # (≥ keys,) float32, for own use
    found: Array,  # (heads · per, COLUMNS) float64
    received: Array,  # (heads, S) float64: what keys receive is added
) -> None:
    """Everything about some rows of a block of scores."""
    keys = scores.shape[1]
    for r in range(rows[0], rows[1]):
        i = r % per
        if i == 0 or r == rows[0]:
            gained[:keys] = 0
        row = scores[r, : keys - (per - 1 - i) * stairs]
        largest = _largest(row)
        if _is_empty(row, largest):
            found[r] = 0.0
            found[r, 4] = -np.inf
        else:
            z = zt = zp = zpp = mass = 0.0
            for start in range(0, row.shape[0], CHUNK):
                a, at, au, auu = _sums(row[start : start + CHUNK], largest)
                middle = float(first + start + CHUNK // 2)
                z += a
                zt += at
                zp += au + middle * a
                zpp += auu + 2 * middle * au + middle * middle * a
            for j in sinks:
                if first <= j < first + row.shape[0]:
                    mass += row[j - first]
            mean = zp / z
            entropy, variance = np.log(z) - LN2 * zt / z, zpp / z - mean * mean
            found[r, 0] = 0.0 if entropy < 0.0 else entropy  # NaN stays
            found[r, 1] = mean
            found[r, 2] = 0.0 if variance < 0.0 else np.sqrt(variance)
            found[r, 3] = mass / z
            found[r, 4] = largest + np.log(z)
            _give(row, np.float32(1.0 / z), gained)
        if i == per - 1 or r == rows[1] - 1:
            total = received[r // per]
            for j in range(keys):
                total[first + j] += gained[j]


@compiled(nogil=True)
def _insert(values: Array, places: Array, x: Any, place: int) -> None:
    """Into the sorted list in place of its last, unless that is larger; of equals, the first place comes first."""
    at = values.shape[0] - 1
    if values[at] > x or (values[at] == x and places[at] < place):
        return
    while at > 0 and (values[at - 1] < x or (values[at - 1] == x and places[at - 1] > place)):
        values[at], places[at] = values[at - 1], places[at - 1]
        at -= 1
    values[at], places[at] = x, place


@compiled(nogil=True)
def _maxima(row: Array, out: Array) -> None:
    """The largest of each column when the row is written in lines as long as `out`."""
    lanes = out.shape[0]
    out[:] = row[:lanes]
    for start in range(lanes, row.shape[0], lanes):
        line = row[start : start + lanes]
        for j in range(line.shape[0]):
            out[j] = _larger(line[j], out[j])


@compiled(nogil=True, fastmath=SUMS)
def _at_least(values: Array, x: Any) -> Any:
    """How many of the values are x or more."""
    found = np.float32(0)
    for j in range(values.shape[0]):
        found += ONE if values[j] >= x else np.float32(0)
    return found


@compiled(nogil=True)
def largest_scores(
    scores: Array,  # (heads · per, keys), float32
    rows: tuple[int, int],
    per: int,
    stairs: bool,
    first: int,
    maxima: Array,  # (≥ keys + 2 count,) float32, for own use
    values: Array,  # (heads · per, count) float32
    places: Array,  # (heads · per, count) int64
) -> None:
    """The largest scores of some rows and their keys; −inf and −1 where no more are visible.

    The maxima of 2n groups of keys have an n-th largest, and n scores of the row are at least that: all others are
    passed over. Groups are columns of the row written in lines, joined from finer columns that say where to look.
    """
    keys, count = scores.shape[1], values.shape[1]
    for r in range(rows[0], rows[1]):
        row = scores[r, : keys - (per - 1 - r % per) * stairs]
        n, groups = row.shape[0], 2 * count
        best, where = values[r], places[r]
        best[:] = -np.inf
        where[:] = -1
        least = np.float32(-np.inf)
        columns, joined = row, row
        if n > groups:
            size = groups * max(1, int(np.sqrt(n / (4 * groups))))
            columns, joined = maxima[:size], maxima[size : size + groups]
            _maxima(row, columns)
            _maxima(columns, joined)
            for x in joined:
                if x > least and _at_least(joined, x) >= count:
                    least = x
        for column in range(columns.shape[0]):
            if columns[column] >= least:
                for j in range(column, n, columns.shape[0]):
                    if row[j] >= least and row[j] > -np.inf:
                        _insert(best, where, row[j], first + j)
