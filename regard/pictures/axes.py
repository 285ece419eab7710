"""Parts of a figure that several pictures share: frames, cell grids, numbers in cells, colour bars."""

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.pictures.colours import ink_on, theme_named
from regard.pictures.fonts import columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LETTER = 0.082  # approximate inches per column of a 10-point label


def label_width(names: list[str]) -> float:
    """Return the width in inches of the longest name."""
    return LETTER * max(map(columns, names))


def must_rotate(names: list[str], cell: float) -> bool:
    """Return whether names must be rotated to fit above cells of width `cell` (inches)."""
    return label_width(names) > 0.95 * cell


def simplify_frame(axes: "Axes", theme: str) -> None:
    """Hide the upper and right border and the tick marks of the axes."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(which="both", length=0, labelcolor=theme_named(theme).ink)


def hide_spines(axes: Any) -> None:
    """Hide all four borders of the axes."""
    for spine in axes.spines.values():
        spine.set_visible(False)


def draw_cell_grid(axes: "Axes", rows: int, count: int, colour: str, width: float) -> None:
    """Draw lines between the cells of an image with `rows` rows and `count` columns."""
    axes.set_xticks(np.arange(1, count) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, rows) - 0.5, minor=True)
    axes.grid(which="minor", color=colour, linewidth=width)


def write_in_cell(axes: "Axes", row: int, column: int, text: str, share: float, theme: str, size: float = 8.5) -> None:
    """Write a text into a cell, in black or white, whichever is legible on its colour (`share` of the map, 0 to 1)."""
    axes.text(column, row, text, ha="center", va="center", fontsize=size, color=ink_on(theme, share))


def add_colour_bar(figure: "Figure", image: Any, axes: Any, label: str, aspect: float = 24, **options: Any) -> None:
    """Add a colour bar without border beside the axes."""
    bar = figure.colorbar(image, ax=axes, label=label, aspect=aspect, **{"pad": 0.03, **options})
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8)
