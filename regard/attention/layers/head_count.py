"""Validation of the number of heads.

A head has d_k = D / H of the D channels, so H must divide D. 128 channels cannot be split into 24 heads; without these
checks, a reshape fails later with a message about `[1, 3, 24, 5, 42]`.
"""

import warnings

from regard.attention.integer_arguments import check_integer


def divisors(n: int) -> list[int]:
    """Return all divisors of n in ascending order: the numbers of heads that a width of n allows.

    >>> divisors(144)
    [1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 36, 48, 72, 144]
    """
    check_integer("n", n, 1)
    if n > 10**12:  # finding the divisors would take minutes
        raise ValueError(f"a width must be at most 10**12, got {n}")
    small = [i for i in range(1, int(n**0.5) + 1) if n % i == 0]
    return small + [n // i for i in reversed(small) if i * i != n]


def nearest_heads(channels: int, heads: int) -> int:
    """Return the divisor of `channels` nearest to `heads`; the smaller one of two equally near.

    The smaller count needs less memory (the weights are H·L·S numbers), and its heads are wider.

    >>> nearest_heads(144, 20)
    18
    >>> nearest_heads(128, 24)      # 16 and 32 are equally near
    16
    """
    check_integer("heads", heads, 1)
    return min(divisors(channels), key=lambda d: (abs(d - heads), d))


def check_heads(channels: int, heads: int) -> int:
    """Return the width of one head, d_k = channels / heads; raise a ValueError with the nearest counts that divide.

    >>> check_heads(144, 24)
    6
    >>> check_heads(128, 24)
    Traceback (most recent call last):
    ValueError: heads must divide the channels, got 24 heads for 128 channels; the nearest counts that do are
    16 (d_k = 8) and 32 (d_k = 4)
    """
    check_integer("channels", channels, 1)
    check_integer("heads", heads, 1)
    if channels % heads:
        fits = divisors(channels)
        below = max(d for d in fits if d < heads)  # 1 always divides
        above = min((d for d in fits if d > heads), default=None)
        near = [f"{d} (d_k = {channels // d})" for d in (below, above) if d]
        nearest = "nearest counts that do are" if len(near) == 2 else "nearest count that does is"
        raise ValueError(
            f"heads must divide the channels, got {heads} heads for {channels} channels; "
            f"the {nearest} {' and '.join(near)}"
        )
    return channels // heads


def fit_heads(channels: int, heads: int, adjust: bool = False) -> int:
    """Return `heads` if it divides `channels`; otherwise raise or, with `adjust`, warn and return the nearest count.

    >>> fit_heads(144, 24)
    24
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fit_heads(128, 24, adjust=True)
    16
    >>> print(caught[0].message)
    24 heads do not divide 128 channels: using 16 heads of width 8 instead
    """
    if not adjust:
        check_heads(channels, heads)
        return heads
    nearest = nearest_heads(channels, heads)
    if nearest != heads:
        warnings.warn(
            f"{heads} heads do not divide {channels} channels: "
            f"using {nearest} heads of width {channels // nearest} instead",
            stacklevel=2,
        )
    return nearest


def check_groups(heads: int, kv_heads: int) -> int:
    """Return the number of query heads per key/value head.

    heads       H, the number of query heads
    kv_heads    H_kv, the number of key/value heads

    Raises ValueError, with the counts that divide, if kv_heads does not divide heads.

    >>> check_groups(8, 2)
    4
    """
    check_integer("heads", heads, 1)
    check_integer("kv_heads", kv_heads, 1)
    if heads % kv_heads:
        fits = ", ".join(map(str, divisors(heads)))
        raise ValueError(
            f"key/value heads must divide the query heads, got {kv_heads} for {heads} query heads; "
            f"each key/value head serves a group of equal size, so choose one of {fits}"
        )
    return heads // kv_heads
