"""Who beats whom: a table of scores in colour, and strengths with their intervals."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.pictures.colours import colour_map, ink_on, theme_named
from regard.pictures.fonts import columns, labels
from regard.pictures.inputs import to_float64
from regard.pictures.picture import Picture, drawing, new_figure

LETTER = 0.082  # inches that one column of a label of 10 points takes, about


def crosstable(
    names: Sequence[str],
    wins: Any,
    draws: Any,
    elo: Sequence[float] | None = None,
    margins: Sequence[float] | None = None,
    *,
    title: str = "Arena",
    theme: str = "light",
) -> Picture:
    """Points in per cent, of the player of a row against that of a column, with wins, draws and losses.

    wins, draws   (players, players): wins of the row against the column, and draws
    elo, margins  a number for each player and half of its interval: drawn beside, strongest first

    >>> crosstable(["a", "b"], [[0, 6], [2, 0]], [[0, 2], [2, 0]]).figure.axes[0].texts[0].get_text()
    '70 %\\n6–2–2'
    """
    won, drawn = to_float64(wins), to_float64(draws)
    players = len(names)
    if won.shape != (players, players) or drawn.shape != won.shape:
        raise ValueError(f"wins and draws must be ({players}, {players}), got {won.shape} and {drawn.shape}")
    order = list(range(players)) if elo is None else sorted(range(players), key=lambda at: -elo[at])
    won, drawn = won[np.ix_(order, order)], drawn[np.ix_(order, order)]
    games = won + won.T + drawn
    with np.errstate(invalid="ignore"):
        share = np.where(games > 0, (won + drawn / 2) / games, np.nan)
    colours = theme_named(theme)
    cell = 0.95
    with drawing(theme):
        shown = labels([names[at] for at in order])
        left = 0.3 + LETTER * max(map(columns, shown))
        figure = new_figure(
            max(left + cell * players + (0.4 if elo is None else 3.6), 5.0), max(0.72 * players + 1.5, 2.6)
        )
        figure.suptitle(title, fontweight="bold", fontsize=12)
        widths = [cell * players] if elo is None else [cell * players, 2.6]
        panels = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
        axes = panels[0]
        axes.imshow(share, cmap=colour_map(theme), vmin=0, vmax=1, aspect="auto")
        for (i, j), value in np.ndenumerate(share):
            if np.isfinite(value):
                result = f"{won[i, j]:.0f}–{drawn[i, j]:.0f}–{won[j, i]:.0f}"
                axes.text(
                    j, i, f"{100 * value:.0f} %\n{result}", ha="center", va="center", fontsize=8.5,
                    color=ink_on(theme, value),
                )  # fmt: skip
        turned = max(map(columns, shown)) * LETTER > 0.95 * cell
        axes.set_xticks(range(players), shown, rotation=30 if turned else 0, ha="left" if turned else "center")
        axes.set_yticks(range(players), shown)
        axes.set_xticks(np.arange(1, players) - 0.5, minor=True)
        axes.set_yticks(np.arange(1, players) - 0.5, minor=True)
        axes.grid(which="minor", color=colours.background, linewidth=1.5)
        axes.tick_params(length=0, which="both", top=False, labeltop=True, bottom=False, labelbottom=False)
        axes.set_xlabel("points of the row against the column\nwins–draws–losses", fontsize=8.5)
        if elo is not None:
            spread = None if margins is None else [margins[at] for at in order]
            _strengths(panels[1], [elo[at] for at in order], spread, colours)
        for axes in panels:
            for spine in axes.spines.values():
                spine.set_visible(False)
    return Picture(figure, title, theme)


def _strengths(axes: Any, elo: list[float], margins: list[float] | None, colours: Any) -> None:
    places = range(len(elo))
    axes.errorbar(
        elo, places, xerr=margins, fmt="o", color=colours.accent, ecolor=colours.faint, capsize=3, markersize=5
    )
    for at, value in enumerate(elo):
        axes.text(value, at - 0.2, f"{value:+.0f}".replace("-", "−"), ha="center", va="bottom", fontsize=8.5)
    axes.set_ylim(len(elo) - 0.5, -0.5)
    axes.set_yticks([])
    axes.grid(axis="x", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.15)
    axes.set_xlabel("Elo above the mean, with 95 % intervals", fontsize=8.5)
    axes.tick_params(length=0, labelsize=8.5)
