"""Parts of a figure that several pictures share: frames, cell grids, numbers in cells, colour bars, bars of weights."""

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.pictures.colours import ink_on, theme_named
from regard.pictures.fonts import columns
from regard.pictures.inputs import digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray

LETTER = 0.082  # approximate inches per column of a 10-point label


def label_width(names: list[str]) -> float:
    """Return the width in inches of the longest name."""
    return LETTER * max(map(columns, names))


def must_rotate(names: list[str], cell: float) -> bool:
    """Return whether names above cells of this width (inches) must be rotated."""
    return label_width(names) > 0.95 * cell


def simplify_frame(axes: "Axes", theme: str) -> None:
    """Hide the upper and right border and the tick marks."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(which="both", length=0, labelcolor=theme_named(theme).ink)


def hide_spines(axes: Any) -> None:
    """Hide all four borders."""
    for spine in axes.spines.values():
        spine.set_visible(False)


def draw_cell_grid(axes: "Axes", rows: int, count: int, colour: str, width: float) -> None:
    """Draw lines between the cells of an image with `rows` rows and `count` columns."""
    axes.set_xticks(np.arange(1, count) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, rows) - 0.5, minor=True)
    axes.grid(which="minor", color=colour, linewidth=width)


def write_in_cell(axes: "Axes", row: int, column: int, text: str, share: float, theme: str, size: float = 8.5) -> None:
    """Write a text into a cell, in black or white depending on the cell's colour (share 0 to 1 of the colour map)."""
    axes.text(column, row, text, ha="center", va="center", fontsize=size, color=ink_on(theme, share))


def add_colour_bar(figure: "Figure", image: Any, axes: Any, label: str, aspect: float = 24, **options: Any) -> None:
    """Add a colour bar without border beside the axes."""
    bar = figure.colorbar(image, ax=axes, label=label, aspect=aspect, **{"pad": 0.03, **options})
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8)


def bar_figure_size(count: int, narrowest: float, height: float, margin: float) -> tuple[float, float]:
    """Return the size of a figure with this many bars: vertical bars up to 24 keys, horizontal ones beyond."""
    return (max(narrowest, 1.1 + 0.62 * count), height) if count <= 24 else (6.4, margin + 0.2 * count)


def draw_weight_bars(axes: "Axes", weights: Array, names: list[str], end: float, theme: str, **style: Any) -> list[Any]:
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
