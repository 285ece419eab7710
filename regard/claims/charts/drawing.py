"""Charts on paper: lines with the interval over seeds as a band, bars with it as a whisker.

Colours are those of Okabe and Ito, safe for colour-blind eyes; lines differ in dash and marker as well.
"""

from typing import Any

from regard.claims.charts.chart import Chart, Level, Plot, Point, Table
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
WIDTHS = {1: 6.0, 2: 5.0, 3: 3.6}  # inches of a panel, by how many stand side by side
INK, FAINT = THEMES["light"].ink, THEMES["light"].faint


def picture(chart: Chart) -> Picture:
    """A row of panels, in English."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    theme, many = THEMES["light"], len(chart.panels)
    settings: Any = {
        "font.size": 9, "text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "regard",
        "axes.edgecolor": theme.line, "axes.labelcolor": theme.faint, "text.color": theme.ink,
        "xtick.color": theme.ink, "ytick.color": theme.ink, "axes.titlesize": 9.5, "legend.fontsize": 8,
    }  # fmt: skip
    tabular = any(isinstance(panel, Table) for panel in chart.panels)
    size = (9.0, 3.9) if tabular else (WIDTHS.get(many, 3.3) * many, 3.5)
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        for axes, panel in zip(figure.subplots(1, many, squeeze=False)[0], chart.panels, strict=True):
            if isinstance(panel, Table):
                _table(axes, panel)
                continue
            (_lines if panel.kind == "lines" else _bars)(axes, panel)
            _frame(axes, panel, theme.line)
    return Picture(figure, chart.title["en"])


def _lines(axes: Any, plot: Plot) -> None:
    for (color, dash, marker), one in zip(STYLES * 3, plot.series, strict=False):
        along, means = [point.x for point in one.points], [point.mean for point in one.points]
        axes.plot(along, means, color=color, ls=dash, marker=marker, ms=4, lw=1.5, label=one.name["en"])
        band = [(point.low, point.high) for point in one.points if point.low is not None and point.high is not None]
        if len(band) == len(along):
            least = min(means) / 10 if "y" in plot.log else -float("inf")
            low, high = [max(low, least) for low, _ in band], [high for _, high in band]
            axes.fill_between(along, low, high, color=color, alpha=0.13, lw=0)
    if "x" in plot.log:
        from matplotlib.ticker import FixedLocator, NullLocator

        every = sorted({float(point.x) for one in plot.series for point in one.points})
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(every))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        if sum(len(f"{value:g}") for value in every) > 24:
            axes.tick_params(axis="x", rotation=45)


def _bars(axes: Any, plot: Plot) -> None:
    places = list(plot.places)
    wide = 0.8 / len(plot.series)
    for number, one in enumerate(plot.series):
        away = (number - (len(plot.series) - 1) / 2) * wide
        middles = [places.index(str(point.x)) + away for point in one.points]
        draw = axes.barh if plot.lying else axes.bar
        style = {"color": STYLES[number % 7][0], "alpha": 0.85, "label": one.name["en"]}
        draw(middles, [point.mean for point in one.points], wide * 0.92, **style)
        for middle, point in zip(middles, one.points, strict=True):
            _whisker(axes, middle, point, lying=plot.lying)
    names = [plot.places[place]["en"] for place in places]
    (axes.set_yticks if plot.lying else axes.set_xticks)(range(len(places)), names)
    if plot.lying:
        axes.invert_yaxis()


def _whisker(axes: Any, middle: float, point: Point, *, lying: bool) -> None:
    if point.low is None or point.high is None:
        return
    away: Any = [[point.mean - point.low], [point.high - point.mean]]
    at, ends = ((point.mean, middle), {"xerr": away}) if lying else ((middle, point.mean), {"yerr": away})
    axes.errorbar(*at, **ends, color=INK, lw=1, capsize=2)


def _frame(axes: Any, plot: Plot, line: str) -> None:
    """Axes, grid, levels and legend."""
    legend = len(plot.series) > 1
    if "y" in plot.log:
        _powers(axes)
    elif plot.shares:
        # Bars reach up to 100 %: their legend stands above.
        rows = -(-len(plot.series) // 3) if legend and plot.kind == "bars" else 0
        ticks = [0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"]
        (axes.set_xlim if plot.lying else axes.set_ylim)(0, 1.05 + 0.13 * rows)
        (axes.set_xticks if plot.lying else axes.set_yticks)(*ticks)
    elif min(point.mean for one in plot.series for point in one.points) >= 0:
        axes.set_ylim(bottom=0)
    for level in plot.levels:
        _level(axes, level, list(plot.places))
    if plot.mark is not None:
        axes.axvline(plot.mark, color=FAINT, lw=0.9, ls=(0, (2, 2)))
    axes.set_title(plot.title["en"])
    axes.set_xlabel(plot.along["en"])
    axes.set_ylabel(plot.beside["en"])
    if legend:
        above = {"ncols": 3, "loc": "upper center"} if plot.shares and plot.kind == "bars" else {}
        axes.legend(frameon=False, **above)
    axes.grid(True, axis="x" if plot.lying else "y", color=line, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, which="both")


def _level(axes: Any, level: Level, places: list[str]) -> None:
    style = {"color": FAINT, "lw": 0.9, "ls": (0, (2, 2))}
    if level.x is not None:
        middle = places.index(level.x)
        axes.plot([middle - 0.45, middle + 0.45], [level.height] * 2, **style)
        return
    axes.axhline(level.height, zorder=0, **style)
    box = {"fc": "white", "ec": "none", "alpha": 0.7, "pad": 0.8}
    axes.annotate(
        level.name["en"], (1, level.height), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8,
        color=FAINT, bbox=box,
    )  # fmt: skip


def _table(axes: Any, table: Table) -> None:
    axes.set_axis_off()
    longest = [max(len(row[i]["en"]) for row in (table.columns, *table.rows)) + 3 for i in range(len(table.columns))]
    drawn = axes.table(
        [[cell["en"] for cell in row] for row in table.rows], colLabels=[name["en"] for name in table.columns],
        loc="center", cellLoc="left", colWidths=[long / sum(longest) for long in longest],
    )  # fmt: skip
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(8)
    drawn.scale(1, 1.25)
    for (row, _), cell in drawn.get_celld().items():
        cell.set_edgecolor("#d5dbe4")
        cell.visible_edges = "B"
        if row == 0:
            cell.set_text_props(weight="bold")


def _powers(axes: Any) -> None:
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
