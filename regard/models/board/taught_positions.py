"""Exact set of the positions that an opening table was taught, at 1.3 bits per position of the game.

A position has three places in an array of bits, given by a hash, and belongs to the set if the exclusive or of the
three bits is 1. The bits are computed for every position that can occur with so few stones, taught or not, so that the
answer is right for all of them (a static function, as in Bloomier filters and XOR filters). Such bits exist if one key
after another can be removed that alone uses one of its places; with 1.3 places per key this nearly always succeeds, and
otherwise another seed is tried. The first eight bytes hold the seed.

The functions take arrays of NumPy or torch: exported players have no torch.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.numba_functions import compiled

Array = np.ndarray

PLACES_PER_KEY = 1.3
SEED_BYTES = 8
TRIES = 100
FIRST_FACTOR, SECOND_FACTOR = -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15  # those of splitmix64, as signed numbers
CHUNK = 21  # bits of the hash for each of the three places


def position_keys(columns: Any, bits: int) -> Any:
    """Return the key of positions from the codes of their columns (N, columns), each below 2^bits.

    A position and its mirror image have the same key.

    >>> position_keys(np.array([[3, 1, 1], [1, 1, 3]]), bits=4)
    array([275, 275])
    """
    here = there = columns[:, 0] * 0
    for column in range(columns.shape[1]):
        here = (here << bits) + columns[:, column]
        there = (there << bits) + columns[:, columns.shape[1] - 1 - column]
    return here + (there - here) * (there < here)


def column_codes(planes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the stones of each column (N, columns) of planes (N, 2, rows, columns), as `OpeningTable` encodes them.

    >>> column_codes(np.array([[[[0, 0], [0, 1]], [[0, 0], [1, 0]]]]))   # the opponent's stone, an own stone
    array([[2, 3]])
    """
    powers = 1 << np.arange(planes.shape[2] - 1, -1, -1)
    own = (planes[:, 0] * powers[:, None]).sum(1).astype(np.int64)
    return np.asarray(own + (1 << planes.sum((1, 2)).astype(np.int64)))


def contains(content: Any, keys: Any) -> Any:
    """Return for each key (N,) whether the set with this content has it; right for all keys given to `build_set`.

    >>> keys = np.arange(1000)
    >>> taught = keys % 3 == 0
    >>> bool((contains(build_set(keys, taught), keys) == taught).all())
    True
    """
    seed = sum(int(byte) << 8 * place for place, byte in enumerate(content[: SEED_BYTES - 1]))
    bits, total = content[SEED_BYTES:], 0
    for place in _places(keys, seed, 8 * len(bits)):
        total = total ^ (bits[place >> 3] >> (place & 7))
    return (total & 1) == 1


def build_set(keys: NDArray[np.int64], taught: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return the content of the set: of all `keys` (N,), which must differ, those where `taught` (N,) is True."""
    repeated = len(keys) - len(np.unique(keys))
    if repeated:
        raise ValueError(f"the keys must differ, got {repeated:,} repeated ones of {len(keys):,}")
    count = 8 * (int(PLACES_PER_KEY * len(keys)) // 8 + 8)
    for seed in range(TRIES):
        places = np.stack(_places(keys, seed, count), 1)
        bits, complete = _solve(places, taught, count)
        if complete:
            start = np.frombuffer(seed.to_bytes(SEED_BYTES, "little"), np.uint8)
            return np.concatenate([start, np.packbits(bits, bitorder="little")])
    raise AssertionError("defect: no seed gives places that can be solved")


def _places(keys: Any, seed: int, count: int) -> list[Any]:
    """Return the three places (N,) of each key, one in each third of the bits."""
    x = keys + (seed + 1) * 0x1E3779B97F4A7C15 % (1 << 62)
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * FIRST_FACTOR
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * SECOND_FACTOR
    x = x ^ ((x >> 31) & ((1 << 33) - 1))
    third = count // 3
    chunks = [(x >> CHUNK * number) & ((1 << CHUNK) - 1) for number in range(3)]
    return [number * third + (chunk * third >> CHUNK) for number, chunk in enumerate(chunks)]


@compiled
def _solve(places: Array, taught: Array, count: int) -> tuple[Array, bool]:
    """Return bits (count,) whose exclusive or over the three places of each key is `taught`, and whether they exist."""
    users, sums = np.zeros(count, np.int32), np.zeros(count, np.int64)
    for key in range(len(places)):
        for place in places[key]:
            users[place] += 1
            sums[place] ^= key
    order, chosen, done = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64), 0
    queue, end = np.zeros(count + 3 * len(places), np.int64), 0
    for place in range(count):
        if users[place] == 1:
            queue[end] = place
            end += 1
    first = 0
    while first < end:
        place = queue[first]
        first += 1
        if users[place] != 1:
            continue
        key = sums[place]
        order[done], chosen[done] = key, place
        done += 1
        for other in places[key]:
            users[other] -= 1
            sums[other] ^= key
            if users[other] == 1:
                queue[end] = other
                end += 1
    bits = np.zeros(count, np.uint8)
    for number in range(done - 1, -1, -1):
        key, place = order[number], chosen[number]
        value = np.uint8(taught[key])
        for other in places[key]:
            value ^= bits[other]
        bits[place] = value
    return bits, done == len(places)
