"""Plots of results: lines with the interval over seeds as a band, bars with it as a whisker.

Colours are those of Okabe and Ito, safe for colour-blind eyes; lines differ in dash and marker as well.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regard.claims.claim import Row
from regard.claims.intervals import interval
from regard.claims.selecting import by_seed, values, where
from regard.pictures import THEMES, Picture

STYLES = (
    ("#0072B2", "-", "o"),
    ("#D55E00", "--", "s"),
    ("#009E73", "-.", "^"),
    ("#CC79A7", ":", "D"),
    ("#E69F00", (0, (5, 1)), "v"),
    ("#56B4E9", (0, (3, 1, 1, 1)), "P"),
    ("#555555", (0, (1, 1)), "X"),
)


def picture(title: str, plots: Sequence[Callable[[Any], None]], *, width: float = 4.6, height: float = 3.5) -> Picture:
    """A row of plots, each drawn by its function on its own axes."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    theme = THEMES["light"]
    settings: Any = {
        "font.size": 9, "text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "regard",
        "axes.edgecolor": theme.line, "axes.labelcolor": theme.faint, "text.color": theme.ink,
        "xtick.color": theme.ink, "ytick.color": theme.ink, "axes.titlesize": 9.5, "legend.fontsize": 8,
    }  # fmt: skip
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(width * len(plots), height), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, plot in zip(figure.subplots(1, len(plots), squeeze=False)[0], plots, strict=True):
            plot(axes)
            axes.grid(True, axis="y", color=theme.line, linewidth=0.6)
            axes.set_axisbelow(True)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
            axes.tick_params(length=0, which="both")
    return Picture(figure, title)


def lines(
    axes: Any, rows: Sequence[Row], x: str, y: str, by: str, *, names: Mapping[Any, str] | None = None, log: str = ""
) -> None:
    """A line for each value of `by`: the mean of `y` over seeds along `x`, with its interval as a band.

    log     "x", "y" or "xy": logarithmic axes
    """
    for (color, dash, marker), key in zip(STYLES * 3, values(rows, by), strict=False):
        own = [row for row in where(rows, **{by: key}) if row.get(x) is not None and row.get(y) is not None]
        along = sorted(values(own, x))
        found = [interval(list(by_seed(own, y, **{x: at}).values())) for at in along]
        if not found:
            continue
        label = str(key if names is None else names.get(key, key))
        axes.plot(along, [f.mean for f in found], color=color, ls=dash, marker=marker, ms=4, lw=1.5, label=label)
        low, high = [max(f.low, -1e30) for f in found], [min(f.high, 1e30) for f in found]
        if all(f.high < float("inf") for f in found):
            least = min(f.mean for f in found) / 10 if "y" in log else -1e30
            axes.fill_between(along, [max(value, least) for value in low], high, color=color, alpha=0.13, lw=0)
    if "x" in log:
        from matplotlib.ticker import FixedLocator, NullLocator

        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(sorted(values(rows, x))))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if "y" in log:
        powers(axes)
    axes.legend(frameon=False)


def bars(
    axes: Any, rows: Sequence[Row], x: str, y: str, by: str | None = None, *, names: Mapping[Any, str] | None = None
) -> None:
    """Bars of `y` at each value of `x`, side by side for each value of `by`, with the interval as a whisker."""
    groups = values(rows, by) if by else [None]
    along = values(rows, x)
    wide = 0.8 / len(groups)
    for number, group in enumerate(groups):
        own = where(rows, **{by: group}) if by else list(rows)
        for place, at in enumerate(along):
            found = list(by_seed(own, y, **{x: at}).values())
            if not found:
                continue
            seen = interval(found)
            middle = place + (number - (len(groups) - 1) / 2) * wide
            label = str(group) if by and at == next(a for a in along if by_seed(own, y, **{x: a})) else None
            axes.bar(middle, seen.mean, wide * 0.92, color=STYLES[number % 7][0], alpha=0.85, label=label)
            if seen.high < float("inf"):
                whisker = [[seen.mean - seen.low], [seen.high - seen.mean]]
                axes.errorbar(middle, seen.mean, yerr=whisker, color="#1c2430", lw=1, capsize=2)
    axes.set_xticks(range(len(along)), [str(at if names is None else names.get(at, at)) for at in along])
    if by:
        axes.legend(frameon=False)


def powers(axes: Any) -> None:
    """A logarithmic height, with the powers of ten written out."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    between = (1, 2, 5) if high / low < 100 else (1,)
    axes.yaxis.set_major_locator(LogLocator(subs=between, numticks=8))
    axes.yaxis.set_major_formatter(lambda value, _: short(value))
    axes.yaxis.set_minor_formatter(NullFormatter())


def short(value: float) -> str:
    """A number as an axis has it.

    >>> short(0.25), short(1e-4), short(20_000), short(5e6), short(2e9)
    ('0.25', '1e-4', '20 k', '5 M', '2 G')
    """
    for size, sign in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= size:
            return f"{value / (1e3 if sign == ' k' else size):g}{sign}"
    return f"{value:g}" if value >= 0.001 else f"{value:.0e}".replace("e-0", "e-")


def shares(axes: Any, top: float = 1.05) -> None:
    """A height from 0 to 1, and room above it for the legend."""
    axes.set_ylim(0, top)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])


def level(axes: Any, height: float, label: str) -> None:
    """A thin line across, such as that of chance."""
    axes.axhline(height, color="#566171", lw=0.9, ls=(0, (2, 2)), zorder=0)
    axes.annotate(
        label,
        (1, height),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        fontsize=8,
        color="#566171",
        bbox={"fc": "white", "ec": "none", "alpha": 0.7, "pad": 0.8},
    )
