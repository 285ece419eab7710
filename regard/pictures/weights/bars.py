"""Bars of attention weights: how one query distributes its attention over the keys, and which keys pass a threshold."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.pictures.axes import simplify_frame
from regard.pictures.colours import bar_colour, theme_named
from regard.pictures.fonts import columns, labels
from regard.pictures.inputs import check_index, digits, largest, named_weights
from regard.pictures.picture import Picture, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def weight_bars(
    weights: Any, tokens: Sequence[str] | None = None, *, query: int | None = None, head: int = 0,
    title: str | None = None, theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw the weights of one query as one bar for each key, with numbers.

    weights         weights (S,), or a `Trace`
    tokens          names of the keys; numbers by default
    query, head     row to draw, for a `Trace`
    title           title of the picture; None chooses one
    theme           "light" or "dark"

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
        figure = new_figure(*_figure_size(len(names), 4.2, 3.4, 0.9))
        axes = figure.subplots()
        axes.set_title(title, fontweight="bold", pad=12)
        most = largest(row)
        end = most * (1.14 if len(names) <= 24 else 1.16)
        _draw_bars(axes, row, names, end, theme, color=[bar_colour(w / most, theme) for w in row])
    return Picture(figure, title, theme)


def information_filter(
    weights: Any, tokens: Sequence[str] | None = None, *, threshold: float | None = None, title: str | None = None,
    theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw the weights of one query and a threshold; the title says how many keys reach the threshold.

    weights     weights (S,)
    tokens      names of the keys; numbers by default
    threshold   by default 1/S, the weight of each key if all keys have equal weights
    title       title of the picture; None chooses one
    theme       "light" or "dark"

    >>> picture = information_filter([0.5, 0.3, 0.1, 0.1], list("abcd"), threshold=0.2)
    >>> picture.figure.axes[0].get_title()
    '2 of 4 keys pass 0.2 and carry 80 % of the weight'
    """
    row, _, keys = named_weights(weights, tokens, None, 1)
    limit = 1 / len(row) if threshold is None else float(threshold)
    passes = row >= limit
    title = "Attention as an information filter" if title is None else title
    one = bool(passes.sum() == 1)
    verbs = f"key{'s' * (len(row) > 1)} pass{'es' * one} {limit:.3g} and {'carries' if one else 'carry'}"
    subtitle = f"{passes.sum()} of {len(row)} {verbs} {100 * float(row[passes].sum()):.0f} % of the weight"
    colours = theme_named(theme)
    with drawing(theme):
        names = labels(keys)
        figure = new_figure(*_figure_size(len(names), 5.4, 3.8, 1.2), title=title)
        axes = figure.subplots()
        axes.set_title(subtitle, fontsize=9.5, color=colours.faint, pad=14)
        strong = bar_colour(0.8, theme)
        end = max(float(row.max()), limit) * 1.16 or 1.0
        ticks = _draw_bars(
            axes, row, names, end, theme, linewidth=0.8 if len(names) <= 24 else 0.6,
            color=[strong if ok else colours.background for ok in passes],
            edgecolor=[strong if ok else colours.faint for ok in passes],
            hatch=["" if ok else "////" for ok in passes],  # distinguishable without colour
        )  # fmt: skip
        (axes.axhline if len(names) <= 24 else axes.axvline)(
            limit, color=colours.accent, linewidth=1.4, linestyle="--",
            label=f"threshold {limit:.3g}" + (" = 1/S" if threshold is None else ""),
        )  # fmt: skip
        for tick, number, ok in zip(ticks, axes.texts, passes, strict=True):
            tick.set_color(colours.ink if ok else colours.faint)
            number.set_backgroundcolor(colours.background)
            number.set_bbox({"facecolor": colours.background, "edgecolor": "none", "pad": 0.6})
            number.set_color(colours.ink if ok else colours.faint)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower right", frameon=False, fontsize=9)
    return Picture(figure, title, theme)


def _figure_size(count: int, narrowest: float, height: float, margin: float) -> tuple[float, float]:
    """Return the size of a figure with this many bars: vertical bars up to 24 keys, horizontal ones beyond."""
    return (max(narrowest, 1.1 + 0.62 * count), height) if count <= 24 else (6.4, margin + 0.2 * count)


def _draw_bars(axes: "Axes", weights: np.ndarray, names: list[str], end: float, theme: str, **style: Any) -> list[Any]:
    """Draw one bar for each key with its number, up to `end` on the axis, and return the tick labels of the keys."""
    places, numbers = np.arange(len(names)), [digits(weight) for weight in weights]
    if len(names) <= 24:
        axes.bar_label(axes.bar(places, weights, width=0.72, **style), numbers, padding=2, fontsize=9)
        axes.set_xticks(places, names, rotation=90 if max(map(columns, names)) > 8 else 0)
        axes.set(xlabel="key", ylabel="weight", ylim=(0, end), xlim=(-0.7, len(names) - 0.3))
        ticks = axes.get_xticklabels()
    else:
        axes.bar_label(axes.barh(places, weights, height=0.72, **style), numbers, padding=3, fontsize=8)
        axes.set_yticks(places, names, fontsize=8)
        axes.set(ylabel="key", xlabel="weight", xlim=(0, end), ylim=(len(names) - 0.3, -0.7))
        ticks = axes.get_yticklabels()
    simplify_frame(axes, theme)
    return list(ticks)
