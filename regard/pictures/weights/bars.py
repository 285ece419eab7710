"""Bars of attention weights: how one query distributes its attention over the keys."""

from collections.abc import Sequence
from typing import Any

from regard.pictures.axes import bar_figure_size, draw_weight_bars
from regard.pictures.colours import bar_colour
from regard.pictures.fonts import labels
from regard.pictures.inputs import check_index, largest, named_weights
from regard.pictures.picture import Picture, drawing, new_figure


def weight_bars(
    weights: Any, tokens: Sequence[str] | None = None, *, query: int | None = None, head: int = 0,
    title: str | None = None, theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw the weights (S,) of one query as one bar for each key, with numbers.

    With a `Trace`, `query` (and `head`) choose the row.

    >>> weight_bars([0.1, 0.7, 0.2], ["The", "cat", "sat"]).title
    'Attention weights'
    """
    default_title = "Attention weights"
    if query is not None:
        array, queries, keys = named_weights(weights, tokens, None, 3)
        query = check_index("query", query, len(queries))
        row = array[check_index("head", head, len(array)), query]
        default_title = f"Attention weights of “{labels([queries[query]])[0]}”"
    else:
        row, _, keys = named_weights(weights, tokens, None, 1)
    title = default_title if title is None else title
    with drawing(theme):
        names = labels(keys)
        figure = new_figure(*bar_figure_size(len(names), 4.2, 3.4, 0.9))
        axes = figure.subplots()
        axes.set_title(title, fontweight="bold", pad=12)
        most = largest(row)
        end = most * (1.14 if len(names) <= 24 else 1.16)
        draw_weight_bars(axes, row, names, end, theme, color=[bar_colour(w / most, theme) for w in row])
    return Picture(figure, title, theme)
