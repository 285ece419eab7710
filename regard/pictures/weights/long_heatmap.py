"""Heatmap of a long sequence, for example 32,768 tokens on 1,024 pixels, without the S×S matrix in memory.

A pixel represents a rectangle of pairs. It shows the largest weight in it (so that a single strong pair stays visible)
or the mean (so that a faint broad band is visible). Both are accumulated from a few rows at a time:

    weights(slice(0, 64)) → (64, S) → max and sum over the keys of each pixel → added to the pixel's row

The memory needed is that of the picture and of one strip. If the length is not divisible by the number of pixels,
the numbers of rows of pixels differ by one; each mean is over the pairs of its pixel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.pictures.colours import colour_map
from regard.pictures.inputs import to_float64
from regard.pictures.picture import Picture, drawing, new_figure

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Pyramid:
    """Maximum and mean of a long weight matrix over the rectangle of each pixel; `levels` returns coarser pyramids.

    maximum, mean               largest and mean weight of each pixel
    row_edges, column_edges     pixel i represents the queries (keys) from edge i up to, not including, edge i + 1

    >>> [level.mean.shape for level in max_mean_pyramid(lambda rows: np.eye(8)[rows], 8, 8, pixels=4).levels()]
    [(4, 4), (2, 2), (1, 1)]
    """

    maximum: Array
    mean: Array
    row_edges: Array
    column_edges: Array

    def levels(self) -> list["Pyramid"]:
        """Return this pyramid and smaller ones, each with half the pixels on a side, down to one pixel."""
        levels = [self]
        while max(levels[-1].maximum.shape) > 1:
            levels.append(_halve(levels[-1]))
        return levels


def max_mean_pyramid(
    weights: Callable[[slice], Any], queries: int, keys: int, *, pixels: int = 1024, strip: int = 64
) -> Pyramid:
    """Reduce a weight matrix (queries, keys), given strip by strip, to at most pixels × pixels.

    weights  called with consecutive slices of at most `strip` queries; returns weights (rows, keys)

    >>> whole = np.arange(12.0).reshape(3, 4)
    >>> p = max_mean_pyramid(lambda rows: whole[rows], 3, 4, pixels=2, strip=1)
    >>> p.maximum                               # rows 0 | 1–2, columns 0–1 | 2–3
    array([[ 1.,  3.],
           [ 9., 11.]])
    >>> p.mean
    array([[0.5, 2.5],
           [6.5, 8.5]])
    """
    for name, value in {"queries": queries, "keys": keys, "pixels": pixels, "strip": strip}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    tall, wide = min(queries, pixels), min(keys, pixels)
    row_edges = np.arange(tall + 1) * queries // tall
    column_edges = np.arange(wide + 1) * keys // wide
    maximum = np.full((tall, wide), -np.inf)
    total = np.zeros((tall, wide))
    pixel_of = np.repeat(np.arange(tall), np.diff(row_edges))
    for start in range(0, queries, strip):
        rows = slice(start, min(start + strip, queries))
        part = weights(rows)
        part = part.detach().cpu().float().numpy() if hasattr(part, "detach") else np.asarray(part)
        expected = (rows.stop - rows.start, keys)
        if part.shape != expected:
            raise ValueError(f"weights({rows}) must be of shape {expected}, got {part.shape}")
        largest = np.maximum.reduceat(part, column_edges[:-1], axis=1)
        added = np.add.reduceat(part, column_edges[:-1], axis=1, dtype=np.float64)
        np.maximum.at(maximum, pixel_of[rows], largest)
        np.add.at(total, pixel_of[rows], added)
    return Pyramid(maximum, total / np.outer(np.diff(row_edges), np.diff(column_edges)), row_edges, column_edges)


def long_heatmap(
    weights: Callable[[slice], Any] | Any, queries: int | None = None, keys: int | None = None, *, pixels: int = 1024,
    strip: int = 64, title: str | None = None, theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw the maximum and the mean of a long weight matrix side by side, as `max_mean_pyramid` computes them.

    weights         an array (L, S), a function of slices of queries, or a `Pyramid`
    queries, keys   L and S, for a function
    pixels          largest height and width of the heatmaps
    strip           number of queries to compute at once
    title           title of the picture; None chooses one
    theme           "light" or "dark"

    The colour scale is logarithmic, because a mean over many pairs is small.

    >>> long_heatmap(np.full((2000, 2000), 1 / 2000), pixels=64).title
    'Attention of 2,000 queries over 2,000 keys'
    """
    if isinstance(weights, Pyramid):
        pyramid = weights
    elif callable(weights):
        if queries is None or keys is None:
            raise ValueError("with a function for weights, give queries= and keys=, the size of the whole matrix")
        pyramid = max_mean_pyramid(weights, queries, keys, pixels=pixels, strip=strip)
    else:
        whole = to_float64(weights)
        if whole.ndim != 2:
            raise ValueError(f"weights must be of shape (L, S), got {whole.shape}; choose one head")
        pyramid = max_mean_pyramid(lambda rows: whole[rows], *whole.shape, pixels=pixels, strip=strip)
    queries, keys = int(pyramid.row_edges[-1]), int(pyramid.column_edges[-1])
    title = f"Attention of {queries:,} queries over {keys:,} keys" if title is None else title
    return _draw(pyramid, queries, keys, title, theme)


def _draw(pyramid: Pyramid, queries: int, keys: int, title: str, theme: str) -> Picture:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter

    with drawing(theme):
        figure = new_figure(13.2, 6.4, title=title)
        tall, wide = pyramid.maximum.shape
        per = f"{queries / tall:.4g} × {keys / wide:.4g} pairs a pixel"
        panels = {"largest weight": pyramid.maximum, "mean weight": pyramid.mean}
        for axes, (name, values) in zip(figure.subplots(1, 2), panels.items(), strict=True):
            high = float(values.max()) or 1.0
            low = min(max(float(values[values > 0].min(initial=high)), high * 1e-4), high / 10)
            image = axes.imshow(
                np.maximum(values, low), cmap=colour_map(theme), norm=LogNorm(low, high), extent=(0, keys, queries, 0),
                aspect="equal" if 0.2 < queries / keys < 5 else "auto",
                interpolation="nearest" if tall * wide <= 1 << 16 else "antialiased",
            )  # fmt: skip
            axes.set_title(f"{name} of {per}", fontsize=10)
            axes.set(xlabel="key", ylabel="query")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
                axis.set_tick_params(labelsize=8)
            bar = figure.colorbar(image, ax=axes, label=f"{name} (log scale)", aspect=30, pad=0.02, extend="min")
            bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.3g}"))
            bar.ax.yaxis.set_minor_formatter(FuncFormatter(lambda x, _: ""))
            bar.ax.tick_params(labelsize=8)
    return Picture(figure, title, theme)


def _halve(p: Pyramid) -> Pyramid:
    """Merge pixels in blocks of 2×2 (fewer at an odd edge); means are weighted by their numbers of pairs."""
    maximum, total = p.maximum, p.mean * np.outer(np.diff(p.row_edges), np.diff(p.column_edges))
    edges = []
    for axis, own in enumerate((p.row_edges, p.column_edges)):
        starts = np.arange(0, maximum.shape[axis], 2)
        maximum = np.maximum.reduceat(maximum, starts, axis=axis)
        total = np.add.reduceat(total, starts, axis=axis)
        edges.append(np.append(own[:-1][starts], own[-1]))
    return Pyramid(maximum, total / np.outer(*map(np.diff, edges)), *edges)
