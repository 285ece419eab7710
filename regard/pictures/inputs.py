"""Inputs of pictures: conversion of numbers to NumPy arrays, names of queries and keys, checks, number formats."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.attention import Trace

Array = np.ndarray


def to_float64(values: Any) -> Array:
    """Return an array, a nested list or a torch tensor (any device and dtype) as a float64 array.

    >>> to_float64([[1, 2]])
    array([[1., 2.]])
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=np.float64)


def named_weights(
    weights: Any, tokens: Sequence[str] | None, key_tokens: Sequence[str] | None, dimensions: int, what: str = "weights"
) -> tuple[Array, list[str], list[str]]:
    """Return the weights with exactly this many dimensions, the names of the queries and the names of the keys.

    The names of a `Trace` are its tokens. Leading axes of size 1 are dropped or added; default names are numbers.

    >>> named_weights([[[0.25, 0.75]]], None, ["a", "b"], 2)
    (array([[0.25, 0.75]]), ['0'], ['a', 'b'])
    """
    if isinstance(weights, Trace):
        own, own_keys = list(weights.tokens), list(weights.key_tokens)
        tokens, key_tokens = tokens or own, key_tokens or (own_keys if tokens is None or own_keys != own else None)
        weights = weights.weights
    array = to_float64(weights)
    shape = array.shape
    while array.ndim > dimensions and array.shape[0] == 1:
        array = array[0]
    while array.ndim < dimensions:
        array = array[None]
    if array.ndim != dimensions or 0 in array.shape:
        axes = {1: "(S,)", 2: "(L, S)", 3: "(H, L, S)", 4: "(layers, H, L, S)"}[dimensions]
        raise ValueError(f"{what} must be of shape {axes} with no size 0, got {shape}; choose one batch, layer or head")
    queries, keys = array.shape[-2] if dimensions > 1 else 0, array.shape[-1]
    if key_tokens is None:
        key_tokens = tokens if tokens is not None and len(tokens) == keys else range(keys)  # type: ignore[assignment]
    if tokens is None:
        tokens = key_tokens if queries == keys else range(queries)  # type: ignore[assignment]
    assert tokens is not None
    assert key_tokens is not None
    if dimensions > 1:
        check_names("tokens", tokens, queries, "query")
    check_names("key_tokens" if dimensions > 1 else "tokens", key_tokens, keys, "key")
    return array, [str(t) for t in tokens], [str(t) for t in key_tokens]


def check_names(name: str, tokens: Sequence[str], size: int, what: str) -> None:
    """Raise unless `tokens` holds `size` names; the error calls the argument `name` and the items `what`."""
    if len(tokens) != size:
        raise ValueError(f"{name} must hold one name for each {what}, got {len(tokens)} names for {size}")


def check_index(name: str, index: int, size: int) -> int:
    """Return the index counted from 0, where negative indices count from the end; raise if it is out of range."""
    if not -size <= index < size:
        raise ValueError(f"{name} must be between 0 and {size - 1}, got {index}")
    return index % size


def largest(values: Array) -> float:
    """Return the largest finite value, at which colour scales and axes end; 1 if no value is above 0.

    >>> largest(np.array([0.25, np.nan])), largest(np.zeros(2))
    (0.25, 1.0)
    """
    finite = values[np.isfinite(values)]
    return float(finite.max(initial=0.0)) or 1.0


def digits(value: float, significant: int = 3) -> str:
    """Return a number as text for a picture: three significant digits with trailing zeros, and a minus sign "−".

    >>> digits(0.123456), digits(-2), digits(1e-7), digits(0.1), digits(0), digits(1234)
    ('0.123', '−2.00', '1.00e−07', '0.100', '0', '1230')
    """
    if value == 0:
        return "0"
    text = f"{value:#.{significant}g}" if abs(value) < 1000 else f"{float(f'{value:.{significant}g}'):g}"
    return text.removesuffix(".").replace("-", "−")
