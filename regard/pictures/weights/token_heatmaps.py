"""Heatmaps with token names: rows are queries, columns are keys.

`weight_heatmap` draws the weights of one head, `head_heatmaps` those of all heads with one colour scale, and
`similarity_heatmap` the scores QKᵀ: the dot product of every query with every key.
(Some texts draw the outer product of one row of similarities with itself instead, which has no meaning.)
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.pictures.axes import add_colour_bar, draw_cell_grid, hide_spines, label_width, must_rotate, write_in_cell
from regard.pictures.colours import colour_map, theme_named
from regard.pictures.fonts import columns, labels
from regard.pictures.inputs import check_index, digits, largest, named_weights, to_float64
from regard.pictures.picture import Picture, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

Array = np.ndarray


def weight_heatmap(
    weights: Any, tokens: Sequence[str] | None = None, key_tokens: Sequence[str] | None = None, *, head: int = 0,
    highest: float | None = None, title: str | None = None, theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw the weights of one head, one cell for each pair, with numbers if the cells are large enough.

    weights             weights (L, S) or (H, L, S), or a `Trace`
    tokens, key_tokens  names of the queries and of the keys; numbers by default
    head                head to draw
    highest             weight with the strongest colour; by default the largest weight
    title               title of the picture; None chooses one
    theme               "light" or "dark"

    >>> import regard
    >>> from regard.attention import embed, projections, trace_layer
    >>> words = ["The", "cat", "sat"]
    >>> trace = trace_layer(embed(words, 8), *projections(8), heads=2, tokens=words)
    >>> weight_heatmap(trace, head=1).title
    'Attention weights, head 1'
    """
    array, queries, keys = named_weights(weights, tokens, key_tokens, 3)
    head = check_index("head", head, len(array))
    default_title = "Attention weights" + (f", head {head}" if len(array) > 1 else "")
    limits = (0.0, largest(array[head]) if highest is None else highest)
    return _heatmap(array[head], queries, keys, limits, "weight", default_title if title is None else title, theme)


def similarity_heatmap(
    q: Any, k: Any, tokens: Sequence[str] | None = None, key_tokens: Sequence[str] | None = None, *, scale: float = 1.0,
    title: str | None = None, theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw the similarity of every query with every key: QKᵀ times `scale`.

    q, k                queries (L, d_k) and keys (S, d_k)
    tokens, key_tokens  names of the queries and of the keys; numbers by default
    scale               factor of QKᵀ
    title               title of the picture; None chooses one
    theme               "light" or "dark"

    >>> picture = similarity_heatmap([[1.0, 2.0]], [[3.0, 0.0], [0.0, 1.0]], ["cat"], ["a", "b"])
    >>> picture.figure.axes[0].images[0].get_array().tolist()
    [[3.0, 2.0]]
    """
    queries, keys = to_float64(q), to_float64(k)
    if queries.ndim != 2 or keys.ndim != 2 or queries.shape[1] != keys.shape[1]:
        raise ValueError(f"q and k must be (L, d_k) and (S, d_k) of one head, got {queries.shape} and {keys.shape}")
    scores, names, key_names = named_weights(scale * (queries @ keys.T), tokens, key_tokens, 2, "scores")
    what = "score q · k" + ("" if scale == 1 else f" × {scale:.3g}")
    limits = (float(scores.min()), float(scores.max()))
    title = "Similarity of queries and keys, QKᵀ" if title is None else title
    return _heatmap(scores, names, key_names, limits, what, title, theme)


def head_heatmaps(
    weights: Any, tokens: Sequence[str] | None = None, key_tokens: Sequence[str] | None = None, *,
    names: Sequence[str] | None = None, title: str | None = None, theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw the weights of every head of a layer side by side with one colour scale.

    weights             weights (H, L, S), or a `Trace`
    tokens, key_tokens  names of the queries and of the keys; numbers by default
    names               names of the heads; numbers by default
    title               title of the picture; None chooses one
    theme               "light" or "dark"

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


def _heatmap(
    values: Array, queries: list[str], keys: list[str], limits: tuple[float, float], what: str, title: str, theme: str
) -> Picture:
    cell = cell_size(max(values.shape))
    with drawing(theme):
        rows, tops = labels(queries), labels(keys)
        left = 0.45 + label_width(rows)
        top = 0.75 + (label_width(tops) if must_rotate(tops, cell) else 0.2)
        width = max(left + cell * len(keys) + 1.15, 0.5 + 0.1 * columns(title))
        figure = new_figure(width, max(top + cell * len(queries) + 0.35, 2.4), title=title)
        axes = figure.subplots()
        image = draw_heat(axes, values, rows, tops, limits, theme, cell)
        label_axes(axes)
        add_colour_bar(figure, image, axes, what, aspect=28)
    return Picture(figure, title, theme)


def cell_size(count: int) -> float:
    """Return the size of a cell in inches; it has room for a number up to 16 cells, for a name up to 64."""
    return 0.56 if count <= 16 else max(0.19, min(0.3, 9 / count)) if count <= 64 else max(9 / count, 0.001)


def label_axes(axes: "Axes") -> None:
    """Label the axes of a heatmap, the keys at the top."""
    axes.set(xlabel="key", ylabel="query")
    axes.xaxis.set_label_position("top")


def draw_heat(
    axes: "Axes", values: Array, rows: list[str], tops: list[str], limits: tuple[float, float], theme: str, cell: float,
    *, with_numbers: bool = True,
) -> "AxesImage":  # fmt: skip
    """Draw the cells, their names at the left and top, and numbers if the cells are large enough."""
    low, high = limits if limits[1] > limits[0] else (limits[0] - 0.5, limits[0] + 0.5)
    image = axes.imshow(values, cmap=colour_map(theme), vmin=low, vmax=high, interpolation="nearest", aspect="equal")
    size = 10 if cell >= 0.3 else max(5.0, min(8.5, 44 * cell))
    every = max(1, int(np.ceil(0.105 * size / 7 / cell)))
    rotation = 90 if must_rotate(tops, cell) else 0
    axes.set_xticks(np.arange(0, len(tops), every), tops[::every], rotation=rotation, fontsize=size)
    axes.set_yticks(np.arange(0, len(rows), every), rows[::every], fontsize=size)
    axes.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    hide_spines(axes)
    if max(values.shape) <= 64:
        draw_cell_grid(axes, len(rows), len(tops), theme_named(theme).background, 1.2 if cell > 0.3 else 0.5)
        axes.tick_params(which="minor", length=0)
    if with_numbers and cell >= 0.45:
        for (i, j), value in np.ndenumerate(values):
            write_in_cell(axes, i, j, in_cell(value), (value - low) / (high - low), theme)
    return image


def in_cell(value: float) -> str:
    """Return a number as text that fits a cell: three significant digits, fewer for small numbers.

    >>> in_cell(0.12345), in_cell(0.0), in_cell(0.00012), in_cell(-12.34), in_cell(1.0), in_cell(0.0804)
    ('0.123', '0', '1e−4', '−12.3', '1.00', '0.0804')
    """
    if 0 < abs(value) < 0.001:
        mantissa, exponent = f"{value:.0e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    return digits(value) if abs(value) >= 0.01 or value == 0 else f"{value:.4f}".replace("-", "−")
