"""Parts of a figure that several pictures share: frames, grids, colour bars and numbers in cells."""

from typing import TYPE_CHECKING

from regard.pictures.colours import theme_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def simplify_frame(axes: "Axes", theme: str) -> None:
    """Hide the upper and right border and the tick marks."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(which="both", length=0, labelcolor=theme_named(theme).ink)
