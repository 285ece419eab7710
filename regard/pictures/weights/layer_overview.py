"""Overview of a model, layers × heads: one number and one thumbnail of the weights for each head.

By default the number is the mean entropy of the head's rows in nats: 0 if every query attends to one key only, log S
if it attends to all keys equally.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.pictures.axes import hide_spines, write_in_cell
from regard.pictures.colours import colour_map
from regard.pictures.inputs import to_float64
from regard.pictures.picture import Picture, drawing, new_figure
from regard.pictures.weights.token_heatmaps import in_cell

Array = np.ndarray


def entropies(weights: Any) -> Array:
    """Return the mean entropy of each head's rows in nats, from weights (..., L, S), without empty rows.

    >>> entropies([[[0.5, 0.5], [1.0, 0.0]]]).round(3)
    array([0.347])
    """
    array = to_float64(weights)
    rows = -(array * np.log(np.where(array > 0, array, 1.0))).sum(-1)
    counted = (array > 0).any(-1)
    return np.where(counted, rows, 0).sum(-1) / np.maximum(counted.sum(-1), 1)


def layer_overview(
    values: Any = None, weights: Sequence[Any] | None = None, *, what: str = "entropy (nats)",
    layers: Sequence[str] | None = None, title: str | None = None, theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw one number for each layer and head, and a thumbnail of each head if weights are given.

    values      (layers, H), NaN where a layer has fewer heads; by default the mean entropy of each head's rows
    weights     one array (H, L, S) for each layer, drawn as thumbnails
    what        what the numbers are
    layers      names of the layers; numbers by default
    title       title of the picture; None chooses one
    theme       "light" or "dark"

    >>> weights = np.full((2, 3, 4, 4), 0.25)                   # 2 layers of 3 heads, all uniform
    >>> picture = layer_overview(weights=weights)
    >>> picture.figure.axes[0].images[0].get_array().round(2).tolist()
    [[1.39, 1.39, 1.39], [1.39, 1.39, 1.39]]
    """
    maps = None if weights is None else [to_float64(layer) for layer in weights]
    if maps is not None and (not maps or any(layer.ndim != 3 for layer in maps)):
        shapes = [layer.shape for layer in maps]
        raise ValueError(f"weights must hold one array (H, L, S) for each layer, got shapes {shapes}")
    if values is None:
        if maps is None:
            raise ValueError("give values (layers, H), or weights of every layer, or both; got neither")
        most = max(len(layer) for layer in maps)
        table = np.full((len(maps), most), np.nan)
        for row, layer in zip(table, maps, strict=True):
            row[: len(layer)] = entropies(layer)
    else:
        table = to_float64(values)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"values must be of shape (layers, H) with no size 0, got {table.shape}")
    names = [f"layer {i}" for i in range(len(table))] if layers is None else list(layers)
    if len(names) != len(table) or (maps is not None and len(maps) != len(table)):
        raise ValueError(f"layers and weights must have {len(table)} entries, one for each row of values")
    title = "Layers × heads" if title is None else title
    return _draw(table, maps, names, what, title, theme)


def _draw(table: Array, maps: list[Array] | None, names: list[str], what: str, title: str, theme: str) -> Picture:
    down, across = table.shape
    with drawing(theme):
        side = 0.62
        count = 1 if maps is None else 2
        figure = new_figure(count * (side * across + 2.2) - 1.2 * (count - 1), side * down + 1.4, title=title)
        panels = figure.subplots(1, count, squeeze=False)[0]
        low, high = float(np.nanmin(table)), float(np.nanmax(table))
        low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
        image = panels[0].imshow(table, cmap=colour_map(theme), vmin=low, vmax=high)
        for (i, j), value in np.ndenumerate(table):
            if np.isfinite(value):
                write_in_cell(panels[0], i, j, in_cell(value), (value - low) / (high - low), theme)
        panels[0].set_title(what, fontsize=10)
        bar = figure.colorbar(image, cax=panels[0].inset_axes((1.02, 0.0, 0.02, 1.0)))  # a bar as tall as the table
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8)
        if maps is not None:
            panels[1].set_title("weights, each head from 0 to its largest", fontsize=10)
            panels[1].imshow(np.full(table.shape, np.nan), cmap=colour_map(theme))
            for i, layer in enumerate(maps):
                for j, head in enumerate(layer):
                    place = (j - 0.46, j + 0.46, i + 0.46, i - 0.46)
                    small = thumbnail(head, 64)
                    panels[1].imshow(small / (small.max() or 1), cmap=colour_map(theme), vmin=0, vmax=1, extent=place)
            panels[1].set(xlim=(-0.5, across - 0.5), ylim=(down - 0.5, -0.5))
        for axes in panels:
            axes.set_xticks(range(across), [str(i) for i in range(across)])
            axes.set_yticks(range(down), names)
            axes.set_xlabel("head")
            axes.tick_params(length=0)
            hide_spines(axes)
    return Picture(figure, title, theme)


def thumbnail(weights: Array, most: int) -> Array:
    """Return the weights (L, S) reduced to at most `most` × `most` cells, each the largest weight of its rectangle.

    >>> thumbnail(np.eye(5), 2)
    array([[1., 0.],
           [0., 1.]])
    """
    for axis in (0, 1):
        size = weights.shape[axis]
        if size > most:
            starts = np.arange(most) * size // most
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights
