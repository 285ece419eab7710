"""Validation of integer arguments, with errors that name the argument."""

import operator
from typing import Any


def check_integer(name: str, value: Any, minimum: int, reason: str = "") -> int:
    """Return `value` as an int; raise if it is not a whole number, or if it is less than `minimum`.

    >>> check_integer("window(keys=…)", 0, 1, "the query's own position is one of them")
    Traceback (most recent call last):
    ValueError: window(keys=…) must be at least 1, got 0: the query's own position is one of them
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number, got {value!r} of type {type(value).__name__}")
    integer = operator.index(value)
    if integer < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {integer}" + (f": {reason}" if reason else ""))
    return integer
