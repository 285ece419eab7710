"""Comparison of two configurations: errors of the networks of each seed, and results of games between the two."""

from collections.abc import Mapping
from typing import Any

from regard.pictures.axes import simplify_frame
from regard.pictures.colours import theme_named
from regard.pictures.picture import Picture, drawing, new_figure

GRADES = (("error", "all"), ("error_begin", "begin"), ("error_middle", "middle"), ("error_end", "end"))


def comparison(results: Mapping[str, Any], *, title: str | None = None, theme: str = "light") -> Picture:
    """Draw the errors by third of the game, one dot for each seed, and the score of A against B with its interval.

    results     what `regard connectx compare` writes: "configurations", "grades" (rows with "error" …) and "games"
    title       title of the picture; None chooses one
    theme       "light" or "dark"

    >>> rows = [{"error": 0.1}], [{"error": 0.2}]
    >>> games = {"score": 0.6, "low": 0.5, "high": 0.7, "won": 6, "drawn": 0, "lost": 4}
    >>> results = {"configurations": ["a", "b"], "grades": dict(zip("ab", rows)), "games": games}
    >>> comparison(results).title
    'a against b'
    """
    a, b = results["configurations"]
    title = f"{a} against {b}" if title is None else title
    colours = theme_named(theme)
    with drawing(theme):
        figure = new_figure(7.2, 3.4)
        figure.suptitle(title, fontweight="bold", fontsize=11)
        left, right = figure.subplots(1, 2, width_ratios=[2.4, 1])
        every_row = (*results["grades"][a], *results["grades"][b])
        names = [(key, label) for key, label in GRADES if all(key in row for row in every_row)]
        for which, (name, colour, marker) in enumerate(((a, colours.accent, "o"), (b, colours.faint, "s"))):
            for at, (key, _) in enumerate(names):
                values = [100 * row[key] for row in results["grades"][name]]
                place = at + (which - 0.5) * 0.3
                label = name if at == 0 else None
                left.plot([place] * len(values), values, marker, color=colour, markersize=4, label=label)
                mean = sum(values) / len(values)
                left.plot([place - 0.1, place + 0.1], [mean, mean], color=colour, linewidth=2)
        left.set_xticks(range(len(names)), [label for _, label in names])
        left.set(ylim=(0, None), ylabel="moves that lose (%)")
        left.legend(frameon=False, fontsize=8)
        games = results["games"]
        score, low, high = (100 * games[key] for key in ("score", "low", "high"))
        right.errorbar([0], [score], yerr=[[score - low], [high - score]], fmt="o", color=colours.accent, capsize=4)
        right.axhline(50, color=colours.faint, linewidth=1, linestyle=":")
        right.set(ylim=(0, 100), xlim=(-1, 1))
        right.set_xticks([0], [f"+{games['won']} ={games['drawn']} −{games['lost']}"])
        right.set_ylabel(f"score of {a.split(',')[0]} (A) in games (%)", fontsize=9)
        for axes in (left, right):
            simplify_frame(axes, theme)
    return Picture(figure, title, theme)
