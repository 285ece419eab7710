"""Softmax and layer norm in NumPy, computed correctly or with mistakes in their parts."""

from collections.abc import Callable

import numpy as np

from regard.learn.mistakes.parts import Array, Made


def softmax(made: Made, x: Array) -> Array:
    """Return softmax over the last axis with the mistakes made in the parts "softmax" and "maximum"."""
    mistake = made.get("softmax", "")
    if not mistake and not made.get("maximum"):
        return _exponentials(made, x, -1)[1]
    if mistake.startswith("no-keepdims"):
        return _without_keepdims(mistake, x)
    if mistake == "loop-over-first-axis":
        return np.stack([_exponentials(made, item, tuple(range(item.ndim)))[1] for item in x])
    axes: dict[str, int | tuple[int, ...]] = {
        "wrong-axis": -2, "whole-array": tuple(range(x.ndim)), "across-heads": 1, "across-the-batch": 0,
        "fixed-axis": 1, "wrong-axis:first": 0,
    }  # fmt: skip
    if mistake in ("across-heads", "across-the-batch") and x.ndim < 3:
        return softmax({}, x)
    if mistake == "wrong-axis" and x.ndim < 2:
        return softmax({}, x)
    if mistake in axes:
        return _exponentials(made, x, axes[mistake])[1]
    shifted, weights = _exponentials(made, x, -1)
    e = np.exp(shifted)
    if mistake == "squared":
        return x**2 / (x**2).sum(-1, keepdims=True)
    if mistake == "sigmoid:normalised":
        sigmoid = 1 / (1 + np.exp(-x))
        return sigmoid / sigmoid.sum(-1, keepdims=True)
    if mistake.startswith("epsilon-in-the-sum"):
        return e / (e.sum(-1, keepdims=True) + float(mistake.partition(":")[2]))
    results: dict[str, Callable[[], Array]] = {
        "no-softmax": lambda: x,
        "no-exponential": lambda: x / x.sum(-1, keepdims=True),
        "no-exponential:shifted": lambda: shifted / shifted.sum(-1, keepdims=True),
        "no-exponential:positive": lambda: np.maximum(x, 0) / np.maximum(x, 0).sum(-1, keepdims=True),
        "not-normalised": lambda: e,
        "not-normalised:unshifted": lambda: np.exp(x),
        "sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "hard-maximum": lambda: (np.arange(x.shape[-1]) == x.argmax(-1)[..., None]).astype(float),
        "logarithm": lambda: shifted - np.log(e.sum(-1, keepdims=True)),
        "whole-array:sum": lambda: e / e.sum(),
        "other-base": lambda: 2.0**shifted / (2.0**shifted).sum(-1, keepdims=True),
        "other-base:10": lambda: 10.0**shifted / (10.0**shifted).sum(-1, keepdims=True),
        "other-norm": lambda: e / np.sqrt((e**2).sum(-1, keepdims=True)),
        "other-norm:max": lambda: e / e.max(-1, keepdims=True),
        "softmax-twice": lambda: _exponentials({}, weights, -1)[1],
        "negated-softmax": lambda: _exponentials({}, -x, -1)[1],
        "wrong-axis:sum-first": lambda: e / e.sum(0, keepdims=True),
        "no-exponential:positive-eps": lambda: np.maximum(x, 0) / (np.maximum(x, 0).sum(-1, keepdims=True) + 1e-9),
        "wrong-axis:sum": lambda: e / e.sum(-2, keepdims=True),
        "across-heads:sum": lambda: e / e.sum(1, keepdims=True),
        "shift-inconsistent": lambda: np.exp(x) / e.sum(-1, keepdims=True),
        "shift-inconsistent:denominator": lambda: e / np.exp(x).sum(-1, keepdims=True),
        "divided-by-count": lambda: e / x.shape[-1],
    }
    return results[mistake]() if mistake in results else weights


def _exponentials(made: Made, x: Array, axis: int | tuple[int, ...]) -> tuple[Array, Array]:
    """Return the shifted scores and their softmax over the axis."""
    mistake = made.get("maximum", "")
    if mistake.startswith("clipped"):
        limit = float(mistake.partition(":")[2].partition("-")[0])
        if mistake.endswith("shifted"):
            shifted = np.maximum(x - x.max(axis, keepdims=True), -limit)
        else:
            shifted = np.minimum(x, limit) if mistake.endswith("above") else np.clip(x, -limit, limit)
    elif mistake == "divided-by-maximum":
        shifted = x / x.max(axis, keepdims=True)
    elif mistake == "unstable":
        shifted = x
    else:
        with np.errstate(all="ignore"):
            shifts: dict[str, Callable[[], Array]] = {
                "one-maximum-for-all": lambda: x.max(),
                "minimum": lambda: x.min(axis, keepdims=True),
                "mean-subtracted:all": lambda: x.mean(),
                "mean-subtracted": lambda: x.mean(axis, keepdims=True),
                "maximum-over-wrong-axis": lambda: x.max(-2, keepdims=True),
            }
            shifted = x - (shifts[mistake]() if mistake in shifts else x.max(axis, keepdims=True))
    e = np.exp(shifted)
    return shifted, e / e.sum(axis, keepdims=True)


def _without_keepdims(mistake: str, x: Array) -> Array:
    if mistake == "no-keepdims:column":  # the maximum over the wrong axis, aligned with the columns
        e = np.exp(x - x.max(axis=0))
        return e / e.sum(-1, keepdims=True)
    largest = x.max(axis=-1, keepdims=mistake.endswith("sum"))
    e = np.exp(x - largest)
    return e / e.sum(axis=-1, keepdims=mistake.endswith("max"))


def layer_norm(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> Array:
    """Return the layer norm over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    return gamma * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) + beta
