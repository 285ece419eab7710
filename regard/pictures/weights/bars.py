"""Weight bars with numbers: how one query shares its attention out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.pictures.axes import simplify_frame
from regard.pictures.colours import bar_colour
from regard.pictures.fonts import columns, labels
from regard.pictures.inputs import check_index, digits, largest, named_weights
from regard.pictures.picture import Picture, drawing, new_figure


def weight_bars(
    weights: Any,
    tokens: Sequence[str] | None = None,
    *,
    query: int | None = None,
    head: int = 0,
    title: str | None = None,
    theme: str = "light",
) -> Picture:
    """One query's weights (S,) as a bar for each key, with its number.

    With a `Trace`, `query` (and `head`) choose the row.

    >>> weight_bars([0.1, 0.7, 0.2], ["The", "cat", "sat"]).title
    'Attention weights'
    """
    named = "Attention weights"
    if query is not None:
        array, queries, keys = named_weights(weights, tokens, None, 3)
        query = check_index("query", query, len(queries))
        row = array[check_index("head", head, len(array)), query]
        named = f"Attention weights of “{labels([queries[query]])[0]}”"
    else:
        row, _, keys = named_weights(weights, tokens, None, 1)
    title = named if title is None else title
    with drawing(theme):
        names = labels(keys)
        longest = max(map(columns, names))
        upright = len(names) <= 24
        figure = new_figure(
            *((max(4.2, 1.1 + 0.62 * len(names)), 3.4) if upright else (6.4, 0.9 + 0.2 * len(names))),
        )
        axes = figure.subplots()
        axes.set_title(title, fontweight="bold", pad=12)
        places = np.arange(len(names))
        most = largest(row)
        colours = [bar_colour(w / most, theme) for w in row]
        numbers = [digits(w) for w in row]
        if upright:
            bars = axes.bar(places, row, color=colours, width=0.72)
            axes.bar_label(bars, numbers, padding=2, fontsize=9)
            axes.set_xticks(places, names, rotation=90 if longest > 8 else 0)
            axes.set_xlabel("key")
            axes.set_ylabel("weight")
            axes.set_ylim(0, most * 1.14)
            axes.set_xlim(-0.7, len(names) - 0.3)
        else:
            bars = axes.barh(places, row, color=colours, height=0.74)
            axes.bar_label(bars, numbers, padding=3, fontsize=8)
            axes.set_yticks(places, names, fontsize=8)
            axes.set_ylabel("key")
            axes.set_xlabel("weight")
            axes.set_xlim(0, most * 1.16)
            axes.set_ylim(len(names) - 0.3, -0.7)
        simplify_frame(axes, theme)
    return Picture(figure, title, theme)
