"""Lines from every query to every key, whose width and opacity show the weight; one panel for each head.

All panels have the same scale: lines of equal width show equal weights.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.pictures.axes import hide_spines, label_width
from regard.pictures.colours import theme_named
from regard.pictures.fonts import columns, labels
from regard.pictures.inputs import check_index, named_weights
from regard.pictures.picture import Picture, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray

WIDEST = 5.0


def head_lines(
    weights: Any, tokens: Sequence[str] | None = None, key_tokens: Sequence[str] | None = None, *,
    heads: Sequence[int] | None = None, query: int | None = None, least: float | None = None, title: str | None = None,
    theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw lines between queries (left) and keys (right), for several heads.

    weights             weights (H, L, S), or a `Trace`
    tokens, key_tokens  names of the queries and of the keys; numbers by default
    heads               heads to draw, each in its own panel; by default the first four
    query               draw the lines of this query only
    least               smallest weight to draw, stated in a note; by default 0.01, or 2/S for more than 16 keys
    title               title of the picture; None chooses one
    theme               "light" or "dark"

    >>> picture = head_lines([[0.9, 0.1], [0.5, 0.5]], ["The", "cat"])
    >>> len(picture.figure.axes[0].collections[0].get_linewidths())
    4
    """
    array, queries, keys = named_weights(weights, tokens, key_tokens, 3)
    indices = [check_index("heads", h, len(array)) for h in (heads if heads is not None else range(min(4, len(array))))]
    if not indices:
        raise ValueError("heads must contain the number of at least one head, got none")
    least = default_least(len(keys)) if least is None else least
    query = None if query is None else check_index("query", query, len(queries))
    title = _title(len(array), indices) if title is None else title
    with drawing(theme):
        left, right = labels(queries), labels(keys)
        step = 0.3 if max(len(left), len(right)) <= 24 else 0.17
        margins = label_width(left) + label_width(right) + 0.3
        across = min(len(indices), 4)
        down = -(-len(indices) // across)
        width = max(across * (margins + 2.0), 5.6, 0.6 + 0.11 * columns(title))
        figure = new_figure(width, down * (0.55 + step * max(len(left), len(right))) + 0.8, title=title)
        grid = figure.subplots(down, across, squeeze=False)
        largest = float(array[indices].max()) or 1.0
        shown = query is None or np.arange(len(queries))[:, None] == query
        for axes, head in zip(grid.flat, indices, strict=False):
            draw_lines(axes, np.where(shown, array[head], 0), least, largest, theme)
            name_sides(axes, left, right, 10 if step > 0.2 else 8, theme, strong=query)
            if len(indices) > 1:
                axes.set_title(f"head {head}", fontsize=10)
        for axes in list(grid.flat)[len(indices) :]:
            axes.set_visible(False)
        note = f"query → key; line width and strength by weight, widest {largest:.3g}"
        note += f"; below {least:.3g} not drawn" if least else ""
        figure.supxlabel(note, fontsize=8.5, color=theme_named(theme).faint)
    return Picture(figure, title, theme)


def default_least(keys: int) -> float:
    """Return the smallest weight that is drawn by default."""
    return 0.01 if keys <= 16 else 2 / keys


def _title(count: int, heads: list[int]) -> str:
    if count == 1:
        return "Attention from query to key"
    if len(heads) == 1:
        return f"Attention from query to key, head {heads[0]}"
    of = "" if len(heads) == count else f" of {count}"
    return f"Attention from query to key, {len(heads)}{of} heads"


def draw_lines(
    axes: "Axes", weights: Array, least: float, largest: float, theme: str, *, upright: bool = False
) -> None:
    """Draw one line for each weight of at least `least`, the strongest on top.

    Queries are on the left and keys on the right; with `upright`, queries are above and keys below.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    pairs = np.argwhere((weights >= least) & (weights > 0))
    pairs = pairs[np.argsort(weights[tuple(pairs.T)], kind="stable")]
    strength = np.clip(weights[tuple(pairs.T)] / largest, 0, 1)
    # The shorter side is spread over the length of the longer one, so that the lines are not all slanted one way.
    across, down = (spread(n, max(weights.shape)) for n in weights.shape)
    curve = np.linspace(0, 1, 24)
    smooth = curve * curve * (3 - 2 * curve)  # horizontal at the ends, where lines of neighbours stay apart
    paths = [np.stack([curve, across[i] + (down[j] - across[i]) * smooth], axis=1) for i, j in pairs]
    if upright:
        paths = [np.stack([path[:, 1], 1 - path[:, 0]], axis=1) for path in paths]
    base = to_rgb(theme_named(theme).accent)
    colours = [(*base, 0.12 + 0.83 * s) for s in strength]
    widths = 0.3 + (WIDEST - 0.3) * strength
    axes.add_collection(LineCollection(paths, colors=colours, linewidths=widths, capstyle="round"))


def spread(count: int, over: int) -> Array:
    """Return positions of `count` names, evenly spread over the length of `over` names.

    >>> spread(2, 4)
    array([0.5, 2.5])
    """
    return (np.arange(count) + 0.5) * over / count - 0.5


def name_sides(axes: "Axes", left: list[str], right: list[str], size: float, theme: str, strong: int | None) -> None:
    """Write the names of the queries on the left and of the keys on the right, and hide the frame."""
    longest = max(len(left), len(right))
    axes.set(xlim=(0, 1), ylim=(longest - 0.5, -0.5), xticks=[])
    axes.set_yticks(spread(len(left), longest), left, fontsize=size)
    other = axes.secondary_yaxis("right")
    other.set_yticks(spread(len(right), longest), right, fontsize=size)
    for part in (axes, other):
        part.tick_params(length=0)
        hide_spines(part)
    if strong is not None:
        axes.get_yticklabels()[strong].set(fontweight="bold", color=theme_named(theme).accent)
