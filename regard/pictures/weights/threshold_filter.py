"""Attention as an information filter: which keys reach a threshold, and how much of the weight they carry."""

from collections.abc import Sequence
from typing import Any

from regard.pictures.axes import bar_figure_size, draw_weight_bars
from regard.pictures.colours import bar_colour, theme_named
from regard.pictures.fonts import labels
from regard.pictures.inputs import named_weights
from regard.pictures.picture import Picture, drawing, new_figure


def information_filter(
    weights: Any, tokens: Sequence[str] | None = None, *, threshold: float | None = None, title: str | None = None,
    theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw the weights (S,) of one query with a threshold, and name the share of the keys that reach it.

    The default threshold is 1/S, the weight that a uniform query gives to each key.

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
        figure = new_figure(*bar_figure_size(len(names), 5.4, 3.8, 1.2), title=title)
        axes = figure.subplots()
        axes.set_title(subtitle, fontsize=9.5, color=colours.faint, pad=14)
        strong = bar_colour(0.8, theme)
        end = max(float(row.max()), limit) * 1.16 or 1.0
        ticks = draw_weight_bars(
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
