"""Long sequences: 32,768 tokens on a thousand pixels, without ever holding the S×S matrix.

A pixel stands for a rectangle of pairs, and shows the largest weight in it (so that a single strong pair is
never lost) or the mean (so that a faint broad band is seen). Both are gathered from a few rows at a time:

    weights(slice(0, 64)) → (64, S) → max and sum over the keys of each pixel → added to the pixel's row

The memory is that of the picture and of one strip. When the size does not divide, pixels differ by one in the
number of rows they stand for, and every mean is over its own number of pairs.
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
    """Maximum and mean over the rectangles of a long weight matrix; `levels` halve them again and again.

    `row_edges` and `column_edges` say which queries and keys a pixel stands for: those from edge i up to,
    not including, edge i + 1.
    """

    maximum: Array
    mean: Array
    row_edges: Array
    column_edges: Array

    def levels(self) -> list["Pyramid"]:
        """This and ever smaller pyramids, each with half the pixels of the one before, down to one pixel."""
        found = [self]
        while max(found[-1].maximum.shape) > 1:
            found.append(_halved(found[-1]))
        return found


def max_mean_pyramid(
    weights: Callable[[slice], Any],
    queries: int,
    keys: int,
    *,
    pixels: int = 1024,
    strip: int = 64,
) -> Pyramid:
    """Reduce a weight matrix (queries, keys), given strip by strip, to at most pixels × pixels.

    weights  called with slices of queries in order, each of at most `strip` rows; gives (rows, keys)

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
    pairs = np.diff(row_edges)[:, None] * np.diff(column_edges)[None, :]
    return Pyramid(maximum, total / pairs, row_edges, column_edges)


def long_heatmap(
    weights: Callable[[slice], Any] | Any,
    queries: int | None = None,
    keys: int | None = None,
    *,
    pixels: int = 1024,
    strip: int = 64,
    title: str | None = None,
    theme: str = "light",
) -> Picture:
    """The maximum and the mean of a long weight matrix side by side, as `max_mean_pyramid` gathers them.

    `weights` is called with slices of queries, or is an array (L, S), or a `Pyramid` made before. Colours
    follow the logarithm of the weight: a mean over many pairs is small, and must still be seen.

    >>> long_heatmap(np.full((2000, 2000), 1 / 2000), pixels=64).title
    'Attention of 2,000 queries over 2,000 keys'
    """
    if isinstance(weights, Pyramid):
        found = weights
    elif callable(weights):
        if queries is None or keys is None:
            raise ValueError("with a function for weights, give queries= and keys=, the size of the whole matrix")
        found = max_mean_pyramid(weights, queries, keys, pixels=pixels, strip=strip)
    else:
        whole = to_float64(weights)
        if whole.ndim != 2:
            raise ValueError(f"weights must be of shape (L, S), got {whole.shape}; choose one head")
        found = max_mean_pyramid(lambda rows: whole[rows], *whole.shape, pixels=pixels, strip=strip)
    queries, keys = int(found.row_edges[-1]), int(found.column_edges[-1])
    title = f"Attention of {queries:,} queries over {keys:,} keys" if title is None else title
    return _draw(found, queries, keys, title, theme)


def _draw(found: Pyramid, queries: int, keys: int, title: str, theme: str) -> Picture:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter

    with drawing(theme):
        figure = new_figure(13.2, 6.4)
        figure.suptitle(title, fontweight="bold", fontsize=12)
        tall, wide = found.maximum.shape
        per = f"{queries / tall:.4g} × {keys / wide:.4g} pairs a pixel"
        for axes, values, name in zip(
            figure.subplots(1, 2), (found.maximum, found.mean), ("largest weight", "mean weight"), strict=True
        ):
            high = float(values.max()) or 1.0
            seen = values[values > 0]
            low = max(float(seen.min()) if seen.size else high, high * 1e-4) if seen.size else high / 10
            low = min(low, high / 10)
            image = axes.imshow(
                np.maximum(values, low),
                cmap=colour_map(theme),
                norm=LogNorm(low, high),
                extent=(0, keys, queries, 0),
                aspect="equal" if 0.2 < queries / keys < 5 else "auto",
                interpolation="nearest" if tall * wide <= 1 << 16 else "antialiased",
            )
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


def _halved(p: Pyramid) -> Pyramid:
    """Pixels taken two by two; a last odd one stands alone. Means are weighted by the pairs they stand for."""
    maximum, total = p.maximum, p.mean * (np.diff(p.row_edges)[:, None] * np.diff(p.column_edges)[None, :])
    edges = []
    for axis, own in enumerate((p.row_edges, p.column_edges)):
        starts = np.arange(0, maximum.shape[axis], 2)
        maximum = np.maximum.reduceat(maximum, starts, axis=axis)
        total = np.add.reduceat(total, starts, axis=axis)
        edges.append(np.append(own[:-1][starts], own[-1]))
    pairs = np.diff(edges[0])[:, None] * np.diff(edges[1])[None, :]
    return Pyramid(maximum, total / pairs, edges[0], edges[1])
