"""Attention as an information filter: what passes a threshold, and how much of the whole it carries."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.pictures.axes import simplify_frame
from regard.pictures.colours import bar_colour, theme_named
from regard.pictures.fonts import columns, labels
from regard.pictures.inputs import digits, named_weights
from regard.pictures.picture import Picture, drawing, new_figure


def information_filter(
    weights: Any,
    tokens: Sequence[str] | None = None,
    *,
    threshold: float | None = None,
    title: str | None = None,
    theme: str = "light",
) -> Picture:
    """One query's weights (S,) with a threshold: bars that reach it pass, and the mass they carry is named.

    The threshold is 1/S when not given: what a query that looks at all keys alike would give to each.

    >>> picture = information_filter([0.5, 0.3, 0.1, 0.1], list("abcd"), threshold=0.2)
    >>> picture.figure.axes[0].get_title()
    '2 of 4 keys pass 0.2 and carry 80 % of the weight'
    """
    row, _, keys = named_weights(weights, tokens, None, 1)
    usual = threshold is None
    limit = 1 / len(row) if threshold is None else float(threshold)
    passes = row >= limit
    mass = float(row[passes].sum())
    title = "Attention as an information filter" if title is None else title
    said = f"key{'s' * (len(row) > 1)} pass" + "es" * bool(passes.sum() == 1)
    verb = "carries" if passes.sum() == 1 else "carry"
    line = f"{passes.sum()} of {len(row)} {said} {limit:.3g} and {verb} {100 * mass:.0f} % of the weight"
    colours = theme_named(theme)
    with drawing(theme):
        names = labels(keys)
        upright = len(names) <= 24
        size = (max(5.4, 1.1 + 0.62 * len(names)), 3.8) if upright else (6.4, 1.2 + 0.2 * len(names))
        figure = new_figure(*size)
        figure.suptitle(title, fontweight="bold", fontsize=12)
        axes = figure.subplots()
        axes.set_title(line, fontsize=9.5, color=colours.faint, pad=14)
        places = np.arange(len(names))
        fill = [bar_colour(0.8, theme) if ok else colours.background for ok in passes]
        edge = [bar_colour(0.8, theme) if ok else colours.faint for ok in passes]
        hatch = ["" if ok else "////" for ok in passes]  # told apart without colour too
        most = max(float(row.max()), limit) * 1.16 or 1.0
        what = f"threshold {limit:.3g}" + (" = 1/S" if usual else "")
        style: dict[str, Any] = {"color": colours.accent, "linewidth": 1.4, "linestyle": "--", "label": what}
        if upright:
            bars = axes.bar(places, row, color=fill, edgecolor=edge, hatch=hatch, width=0.72, linewidth=0.8)
            axes.axhline(limit, **style)
            axes.bar_label(bars, [digits(w) for w in row], padding=2, fontsize=9)
            axes.set_xticks(places, names, rotation=90 if max(map(columns, names)) > 8 else 0)
            axes.set(xlabel="key", ylabel="weight", ylim=(0, most), xlim=(-0.7, len(names) - 0.3))
            marks = axes.get_xticklabels()
        else:
            bars = axes.barh(places, row, color=fill, edgecolor=edge, hatch=hatch, height=0.72, linewidth=0.6)
            axes.axvline(limit, **style)
            axes.bar_label(bars, [digits(w) for w in row], padding=3, fontsize=8)
            axes.set_yticks(places, names, fontsize=8)
            axes.set(ylabel="key", xlabel="weight", xlim=(0, most), ylim=(len(names) - 0.3, -0.7))
            marks = axes.get_yticklabels()
        simplify_frame(axes, theme)
        for mark, ok in zip(marks, passes, strict=True):
            mark.set_color(colours.ink if ok else colours.faint)
        for number, w in zip(axes.texts, row, strict=True):
            number.set_backgroundcolor(colours.background)
            number.set_bbox({"facecolor": colours.background, "edgecolor": "none", "pad": 0.6})
            number.set_color(colours.ink if w >= limit else colours.faint)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower right", frameon=False, fontsize=9)
    return Picture(figure, title, theme)
