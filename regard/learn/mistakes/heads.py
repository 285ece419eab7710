"""Splitting into heads and merging in NumPy, done correctly or with a mistake."""

import numpy as np

from regard.learn.mistakes.parts import Array, Made

SPLITS = (
    "reshape-without-transpose", "split-interleaved", "interleaved", "values-reshape-without-transpose",
    "queries-reshape-without-transpose", "keys-reshape-without-transpose", "single-head", "first-head-only",
    "single-head:one",
    "queries-and-keys-reshape-without-transpose", "reshape-without-transpose:keys-and-values", "heads-reversed",
    "reshape-after-width", "heads-and-width-swapped", "last-head-only",
)  # fmt: skip
MERGES = (
    "merge-without-transpose", "merge-interleaved", "heads-averaged", "heads-summed", "merge-reversed",
    "merge-transposed", "not-merged",
    "only-last-head", "only-first-head", "not-merged:transposed", "heads-averaged:narrow", "heads-summed:narrow",
    "last-head-for-all", "concatenated-along-tokens", "merge-transposed:all",
)  # fmt: skip
HEADS = ("averaged", "first-head-weights", "last-head-weights")


def split(made: Made, x: Array, heads: int, which: str = "") -> Array:
    """Return (B, n, D) as (B, heads, n, D / heads); `which` is queries, keys or values."""
    B, n, D = x.shape
    mistake = made.get("split", "")
    if mistake.startswith("single-head"):
        return x[:, None]
    wide = x.reshape(B, n, heads, D // heads).swapaxes(1, 2)
    without_transpose = {
        "reshape-without-transpose": ("queries", "keys", "values", ""),
        "queries-reshape-without-transpose": ("queries",),
        "keys-reshape-without-transpose": ("keys",),
        "values-reshape-without-transpose": ("values",),
        "queries-and-keys-reshape-without-transpose": ("queries", "keys"),
        "reshape-without-transpose:keys-and-values": ("keys", "values"),
    }
    if which in without_transpose.get(mistake, ()):
        return x.reshape(B, heads, n, D // heads)
    if mistake in ("interleaved", "split-interleaved"):
        return x.reshape(B, n, D // heads, heads).transpose(0, 3, 1, 2)
    if mistake == "first-head-only":
        return np.broadcast_to(wide[:, :1], wide.shape)
    if mistake == "last-head-only":
        return np.broadcast_to(wide[:, -1:], wide.shape)
    if mistake == "heads-and-width-swapped":
        return x.reshape(B, n, D // heads, heads).swapaxes(1, 2)
    if mistake == "heads-reversed":
        return wide[:, ::-1]
    if mistake == "reshape-after-width":
        return x.reshape(B, heads, D // heads, n).swapaxes(2, 3)
    return wide


def merge(made: Made, mixed: Array) -> Array:
    """Return (B, heads, n, d) as (B, n, heads · d)."""
    B, heads, n, d = mixed.shape
    mistake = made.get("merge", "")
    if made.get("split") == "interleaved" or mistake == "merge-interleaved":
        return mixed.transpose(0, 2, 3, 1).reshape(B, n, heads * d)
    if mistake == "merge-without-transpose":
        return mixed.reshape(B, n, heads * d)
    if mistake.startswith(("heads-averaged", "heads-summed")):
        together = mixed.mean(1) if mistake.startswith("heads-averaged") else mixed.sum(1)
        return together if mistake.endswith("narrow") else np.tile(together, (1, 1, heads))
    if mistake.startswith("not-merged"):
        return mixed.swapaxes(1, 2) if mistake.endswith("transposed") else mixed
    if mistake == "last-head-for-all":
        mixed = np.broadcast_to(mixed[:, -1:], mixed.shape)
    if mistake in ("only-last-head", "only-first-head"):
        head = -1 if mistake == "only-last-head" else 0
        mixed = np.where((np.arange(heads) == head % heads)[:, None, None], mixed, 0)
    if mistake == "concatenated-along-tokens":
        return mixed.reshape(B, heads * n, d)
    if mistake == "merge-reversed":
        mixed = mixed[:, ::-1]
    if mistake == "merge-transposed:all":
        return mixed.transpose(0, 3, 2, 1).reshape(B, n, heads * d)
    if mistake == "merge-transposed":
        return mixed.transpose(0, 3, 1, 2).reshape(B, n, heads * d)
    return mixed.swapaxes(1, 2).reshape(B, n, heads * d)
