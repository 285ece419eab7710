"""Small heatmaps of all heads of a layer, with one colour scale."""

from collections.abc import Sequence
from typing import Any

from regard.pictures.axes import add_colour_bar, label_width, must_rotate
from regard.pictures.fonts import columns, labels
from regard.pictures.inputs import largest, named_weights
from regard.pictures.picture import Picture, drawing, new_figure
from regard.pictures.weights.token_heatmaps import draw_heat


def head_heatmaps(
    weights: Any, tokens: Sequence[str] | None = None, key_tokens: Sequence[str] | None = None, *,
    names: Sequence[str] | None = None, title: str | None = None, theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw the weights (H, L, S) of every head of a layer, or a `Trace`, side by side with one colour scale.

    >>> import numpy as np
    >>> picture = head_heatmaps(np.full((4, 3, 3), 1 / 3), ["The", "cat", "sat"])
    >>> [axes.get_title() for axes in picture.figure.axes[:4]]
    ['head 0', 'head 1', 'head 2', 'head 3']
    """
    array, queries, keys = named_weights(weights, tokens, key_tokens, 3)
    heads = len(array)
    names = [f"head {i}" for i in range(heads)] if names is None else labels(names, 24)
    if len(names) != heads:
        raise ValueError(f"names must hold one name for each head, got {len(names)} names for {heads} heads")
    across = min(heads, 4 if heads <= 8 or heads % 4 == 0 else 5)
    title = f"Attention weights of {heads} head{'s' * (heads > 1)}" if title is None else title
    count = max(array.shape[1:])
    cell = max(1.7 / count, 0.2) if count <= 16 else 3.2 / count
    labelled = count <= 16 or (count <= 40 and heads <= 4)
    if count > 16 and labelled:
        cell, across = max(cell, 0.115), min(across, 2)
    down = -(-heads // across)
    with drawing(theme):
        rows, tops = labels(queries, 12), labels(keys, 12)
        small = min(8.5, 44 * cell) / 10
        side = (0.12 + small * label_width(rows) if labelled else 0.12) + cell * len(keys) + 0.15
        above = small * label_width(tops) if must_rotate(tops, cell) else 0.15
        tall = (above if labelled else 0.0) + cell * len(queries) + 0.45
        width = max(across * side + 1.1, 1.0 + 0.11 * columns(title))
        figure = new_figure(width, down * tall + 0.9, title=title)
        grid = figure.subplots(down, across, squeeze=False)
        limits = (0.0, largest(array))
        for axes, name, values in zip(grid.flat, names, array, strict=False):
            image = draw_heat(axes, values, rows, tops, limits, theme, cell, with_numbers=False)
            axes.set_title(name, fontsize=10, pad=6)
            if not labelled:
                axes.set(xticks=[], yticks=[])
        for axes in list(grid.flat)[heads:]:
            axes.set_visible(False)
        figure.supxlabel("key", fontsize=10)
        figure.supylabel("query", fontsize=10)
        add_colour_bar(figure, image, list(grid.flat), "weight", aspect=30, pad=0.02, shrink=0.9)
    return Picture(figure, title, theme)
