"""Attention of one square over an image or a board, as a heatmap of the squares.

Squares are numbered row by row, as in `SpatialAttention`: square r·W + c is row r, column c.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.pictures.axes import add_colour_bar, draw_cell_grid, write_in_cell
from regard.pictures.colours import colour_map, ink_on, theme_named
from regard.pictures.inputs import to_float64
from regard.pictures.picture import Picture, drawing, new_figure
from regard.pictures.weights.token_heatmaps import in_cell

RINGS: tuple[Any, Any] = ("-", (0, (2, 1.6)))  # rings of the first and second player's stones


def attention_grid(
    weights: Any, rows: int, columns: int, *, square: tuple[int, int] | None = None, stones: Any = None,
    image: Any = None, names: Sequence[str] = ("first player", "second player"), title: str | None = None,
    theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw the weights of one square on all squares, as a heatmap of rows × columns.

    weights         (rows·columns,) of one square, or (rows·columns, rows·columns) with `square` = (row, column)
    rows, columns   size of the board or image
    square          (row, column) of the query, counted from 0 at the top left; it gets a frame
    stones          (rows, columns) of 0, 1 and 2, row 0 on top, as in Kaggle's ConnectX; drawn as rings
    image           (h, w) or (h, w, 3) between 0 and 1, drawn beside the heatmap
    names           names of the two players, for the legend
    title           title of the picture; None chooses one
    theme           "light" or "dark"

    >>> picture = attention_grid(np.full((42, 42), 1 / 42), 6, 7, square=(5, 3))
    >>> picture.title
    'Attention from row 5, column 3'
    """
    array = to_float64(weights)
    squares = rows * columns
    if square is not None and not (0 <= square[0] < rows and 0 <= square[1] < columns):
        raise ValueError(f"square must be (row, column) on {rows} × {columns} squares, got {square}")
    if array.shape == (squares, squares):
        if square is None:
            raise ValueError(
                f"weights of shape {array.shape} hold a row for each square; choose one with square=(row, column)"
            )
        array = array[square[0] * columns + square[1]]
    elif array.size != squares or array.ndim > 2:
        raise ValueError(
            f"weights must be ({squares},) or ({squares}, {squares}) for {rows} × {columns} squares, got {array.shape}"
        )
    heat = array.reshape(rows, columns)
    if title is None:
        title = f"Attention from row {square[0]}, column {square[1]}" if square else "Attention over the squares"
    high = float(heat.max()) or 1.0
    cell = 0.62 if max(rows, columns) <= 12 else 6.0 / max(rows, columns)
    with drawing(theme):
        colours = theme_named(theme)
        count = 1 if image is None else 2
        figure = new_figure(max(count * cell * columns + 1.9, 4.4), max(cell * rows + 1.4, 2.8), title=title)
        panels = figure.subplots(1, count, squeeze=False)[0]
        axes = panels[-1]
        if image is not None:
            picture = to_float64(image)
            panels[0].imshow(picture, cmap="gray", vmin=0, vmax=1)
            panels[0].set_title("image", fontsize=10)
            panels[0].set(xticks=[], yticks=[])
            if square is not None:
                high_px, wide_px = picture.shape[0] / rows, picture.shape[1] / columns
                corner = (square[1] * wide_px - 0.5, square[0] * high_px - 0.5)
                _frame(panels[0], corner, wide_px, high_px, colours.accent)
        heatmap = axes.imshow(heat, cmap=colour_map(theme), vmin=0, vmax=high, aspect="equal")
        if max(rows, columns) <= 16:
            _numbers_and_stones(axes, heat, high, None if stones is None else to_float64(stones), names, theme, cell)
            axes.set(xticks=range(columns), yticks=range(rows))
            draw_cell_grid(axes, rows, columns, colours.line, 0.8)
        axes.tick_params(which="both", length=0, labelsize=9)
        for spine in axes.spines.values():
            spine.set_color(colours.line)
        if square is not None:
            _frame(axes, (square[1] - 0.5, square[0] - 0.5), 1, 1, colours.accent)
        axes.set(xlabel="column", ylabel="row")
        add_colour_bar(figure, heatmap, axes, "weight")
    return Picture(figure, title, theme)


def _frame(axes: Any, corner: tuple[float, float], width: float, height: float, colour: str) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=colour, linewidth=2.6, zorder=5))


def _numbers_and_stones(
    axes: Any, heat: np.ndarray, high: float, stones: np.ndarray | None, names: Sequence[str], theme: str, cell: float
) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle

    if stones is not None and stones.shape != heat.shape:
        raise ValueError(f"stones must be of shape {heat.shape}, one number for each square, got {stones.shape}")
    for (r, c), weight in np.ndenumerate(heat):
        write_in_cell(axes, r, c, in_cell(weight), weight / high, theme, 8 if cell > 0.5 else 6.5)
        stone = 0 if stones is None else int(stones[r, c])
        if stone:  # solid and dashed rings, distinguishable without colour
            ring, ink = RINGS[0] if stone == 1 else RINGS[1], ink_on(theme, weight / high)
            axes.add_patch(Circle((c, r), 0.42, fill=False, edgecolor=ink, linewidth=2, linestyle=ring))
    if stones is not None:
        style: dict[str, Any] = {"color": theme_named(theme).ink, "linewidth": 2}
        rings = [Line2D([], [], linestyle=ring, label=name, **style) for ring, name in zip(RINGS, names, strict=False)]
        axes.figure.legend(handles=rings, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
