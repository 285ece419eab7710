"""Table of arena results, player against player, and Elo ratings with their intervals."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.pictures.axes import draw_cell_grid, hide_spines, label_width, must_rotate, write_in_cell
from regard.pictures.colours import colour_map, theme_named
from regard.pictures.fonts import labels
from regard.pictures.inputs import to_float64
from regard.pictures.picture import Picture, drawing, new_figure


def crosstable(
    names: Sequence[str], wins: Any, draws: Any, elo: Sequence[float] | None = None,
    margins: Sequence[float] | None = None, *, title: str = "Arena", theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw the score of each row's player against each column's, in percent, with wins, draws and losses.

    names           names of the players
    wins, draws     (players, players): wins of the row against the column, and draws
    elo, margins    rating of each player and half the width of its interval; players are sorted by rating
    title           title of the picture
    theme           "light" or "dark"

    >>> crosstable(["a", "b"], [[0, 6], [2, 0]], [[0, 2], [2, 0]]).figure.axes[0].texts[0].get_text()
    '70 %\\n6–2–2'
    """
    won, tied = to_float64(wins), to_float64(draws)
    players = len(names)
    if won.shape != (players, players) or tied.shape != won.shape:
        raise ValueError(f"wins and draws must be ({players}, {players}), got {won.shape} and {tied.shape}")
    order = list(range(players)) if elo is None else sorted(range(players), key=lambda at: -elo[at])
    won, tied = won[np.ix_(order, order)], tied[np.ix_(order, order)]
    games = won + won.T + tied
    with np.errstate(invalid="ignore"):
        share = np.where(games > 0, (won + tied / 2) / games, np.nan)
    colours = theme_named(theme)
    cell = 0.95
    with drawing(theme):
        labelled = labels([names[at] for at in order])
        left = 0.3 + label_width(labelled)
        figure = new_figure(
            max(left + cell * players + (0.4 if elo is None else 3.6), 5.0), max(0.72 * players + 1.5, 2.6), title=title
        )
        widths = [cell * players] if elo is None else [cell * players, 2.6]
        panels = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
        axes = panels[0]
        axes.imshow(share, cmap=colour_map(theme), vmin=0, vmax=1, aspect="auto")
        for (i, j), value in np.ndenumerate(share):
            if np.isfinite(value):
                result = f"{won[i, j]:.0f}–{tied[i, j]:.0f}–{won[j, i]:.0f}"
                write_in_cell(axes, i, j, f"{100 * value:.0f} %\n{result}", value, theme)
        rotate = must_rotate(labelled, cell)
        axes.set_xticks(range(players), labelled, rotation=30 if rotate else 0, ha="left" if rotate else "center")
        axes.set_yticks(range(players), labelled)
        draw_cell_grid(axes, players, players, colours.background, 1.5)
        axes.tick_params(length=0, which="both", top=False, labeltop=True, bottom=False, labelbottom=False)
        axes.set_xlabel("points of the row against the column\nwins–draws–losses", fontsize=8.5)
        if elo is not None:
            spread = None if margins is None else [margins[at] for at in order]
            _draw_ratings(panels[1], [elo[at] for at in order], spread, colours)
        for axes in panels:
            hide_spines(axes)
    return Picture(figure, title, theme)


def _draw_ratings(axes: Any, elo: list[float], margins: list[float] | None, colours: Any) -> None:
    style = {"color": colours.accent, "ecolor": colours.faint, "capsize": 3, "markersize": 5}
    axes.errorbar(elo, range(len(elo)), xerr=margins, fmt="o", **style)
    for at, value in enumerate(elo):
        axes.text(value, at - 0.2, f"{value:+.0f}".replace("-", "−"), ha="center", va="bottom", fontsize=8.5)
    axes.set(ylim=(len(elo) - 0.5, -0.5), yticks=[])
    axes.grid(axis="x", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.15)
    axes.set_xlabel("Elo above the mean, with 95 % intervals", fontsize=8.5)
    axes.tick_params(length=0, labelsize=8.5)
