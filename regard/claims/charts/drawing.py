"""Drawing of chart panels with matplotlib: lines with the interval as a band, bars with the interval as an error bar.

The colours are those of Okabe and Ito, which colour-blind readers can tell apart; lines also differ in dash and marker.
"""

from collections.abc import Sequence
from typing import Any

from regard.claims.charts.panels import Plot, Point, ReferenceLine, Table
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
PANEL_WIDTHS = {1: 6.0, 2: 5.0, 3: 3.6}  # number of panels → width of each panel in inches
THEME = THEMES["light"]
THIN = {"color": THEME.faint, "lw": 0.9, "ls": (0, (2, 2))}


def draw_panels(title: str, panels: Sequence[Plot | Table]) -> Picture:
    """Return a picture of the panels in one row, labelled in English."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: Any = {
        "font.size": 9, "text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "regard",
        "axes.edgecolor": THEME.line, "axes.labelcolor": THEME.faint, "text.color": THEME.ink,
        "xtick.color": THEME.ink, "ytick.color": THEME.ink, "axes.titlesize": 9.5, "legend.fontsize": 8,
    }  # fmt: skip
    count = len(panels)
    has_table = any(isinstance(panel, Table) for panel in panels)
    size = (9.0, 3.9) if has_table else (PANEL_WIDTHS.get(count, 3.3) * count, 3.5)
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        for axes, panel in zip(figure.subplots(1, count, squeeze=False)[0], panels, strict=True):
            if isinstance(panel, Table):
                _draw_table(axes, panel)
                continue
            (_draw_lines if panel.kind == "lines" else _draw_bars)(axes, panel)
            _draw_frame(axes, panel)
    return Picture(figure, title)


def _draw_lines(axes: Any, plot: Plot) -> None:
    for (color, dash, marker), series in zip(STYLES * 3, plot.series, strict=False):
        x, means = [point.x for point in series.points], [point.mean for point in series.points]
        axes.plot(x, means, color=color, ls=dash, marker=marker, ms=4, lw=1.5, label=series.name["en"])
        band = [(point.low, point.high) for point in series.points if point.low is not None and point.high is not None]
        if len(band) == len(x):
            lowest = min(means) / 10 if "y" in plot.log else -float("inf")
            low, high = [max(low, lowest) for low, _ in band], [high for _, high in band]
            axes.fill_between(x, low, high, color=color, alpha=0.13, lw=0)
    if "x" in plot.log:
        from matplotlib.ticker import FixedLocator, NullLocator

        ticks = sorted({float(point.x) for series in plot.series for point in series.points})
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        if sum(len(f"{value:g}") for value in ticks) > 24:
            axes.tick_params(axis="x", rotation=45)


def _draw_bars(axes: Any, plot: Plot) -> None:
    categories = list(plot.categories)
    width = 0.8 / len(plot.series)
    draw = axes.barh if plot.horizontal else axes.bar
    for number, series in enumerate(plot.series):
        offset = (number - (len(plot.series) - 1) / 2) * width
        positions = [categories.index(str(point.x)) + offset for point in series.points]
        style = {"color": STYLES[number % 7][0], "alpha": 0.85, "label": series.name["en"]}
        draw(positions, [point.mean for point in series.points], width * 0.92, **style)
        for position, point in zip(positions, series.points, strict=True):
            _draw_error_bar(axes, position, point, horizontal=plot.horizontal)
    names = [name["en"] for name in plot.categories.values()]
    (axes.set_yticks if plot.horizontal else axes.set_xticks)(range(len(names)), names)
    if plot.horizontal:
        axes.invert_yaxis()


def _draw_error_bar(axes: Any, position: float, point: Point, *, horizontal: bool) -> None:
    if point.low is None or point.high is None:
        return
    lengths: Any = [[point.mean - point.low], [point.high - point.mean]]
    style: Any = {"color": THEME.ink, "lw": 1, "capsize": 2}
    if horizontal:
        axes.errorbar(point.mean, position, xerr=lengths, **style)
    else:
        axes.errorbar(position, point.mean, yerr=lengths, **style)


def _draw_frame(axes: Any, plot: Plot) -> None:
    """Set scales and labels; draw grid, reference lines and legend."""
    legend = len(plot.series) > 1
    percent_bars = plot.percent and plot.kind == "bars"
    if "y" in plot.log:
        _set_log_y(axes)
    elif plot.percent:
        # Bars may reach 100 %, so their legend is placed above them, three entries in a row.
        legend_rows = -(-len(plot.series) // 3) if legend and percent_bars else 0
        ticks = [0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"]
        (axes.set_xlim if plot.horizontal else axes.set_ylim)(0, 1.05 + 0.13 * legend_rows)
        (axes.set_xticks if plot.horizontal else axes.set_yticks)(*ticks)
    elif min(point.mean for series in plot.series for point in series.points) >= 0:
        axes.set_ylim(bottom=0)
    for line in plot.reference_lines:
        _draw_reference_line(axes, line, list(plot.categories))
    if plot.vertical_line is not None:
        axes.axvline(plot.vertical_line, **THIN)
    axes.set_title(plot.title["en"])
    axes.set_xlabel(plot.x_label["en"])
    axes.set_ylabel(plot.y_label["en"])
    if legend:
        axes.legend(frameon=False, **({"ncols": 3, "loc": "upper center"} if percent_bars else {}))
    axes.grid(True, axis="x" if plot.horizontal else "y", color=THEME.line, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, which="both")


def _draw_reference_line(axes: Any, line: ReferenceLine, categories: list[str]) -> None:
    if line.category is not None:
        middle = categories.index(line.category)
        axes.plot([middle - 0.45, middle + 0.45], [line.value] * 2, **THIN)
        return
    axes.axhline(line.value, zorder=0, **THIN)
    box = {"fc": "white", "ec": "none", "alpha": 0.7, "pad": 0.8}
    axes.annotate(
        line.name["en"], (1, line.value), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8,
        color=THEME.faint, bbox=box,
    )  # fmt: skip


def _draw_table(axes: Any, table: Table) -> None:
    axes.set_axis_off()
    lengths = [max(len(row[i]["en"]) for row in (table.columns, *table.rows)) + 3 for i in range(len(table.columns))]
    cells = axes.table(
        [[cell["en"] for cell in row] for row in table.rows], colLabels=[name["en"] for name in table.columns],
        loc="center", cellLoc="left", colWidths=[length / sum(lengths) for length in lengths],
    )  # fmt: skip
    cells.auto_set_font_size(False)
    cells.set_fontsize(8)
    cells.scale(1, 1.25)
    for (row, _), cell in cells.get_celld().items():
        cell.set_edgecolor(THEME.line)
        cell.visible_edges = "B"
        if row == 0:
            cell.set_text_props(weight="bold")


def _set_log_y(axes: Any) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 100 else (1,), numticks=8))
    axes.yaxis.set_major_formatter(lambda value, _: tick_label(value))
    axes.yaxis.set_minor_formatter(NullFormatter())


def tick_label(value: float) -> str:
    """Return a number as an axis label, large ones with a unit prefix.

    >>> tick_label(0.25), tick_label(1e-4), tick_label(20_000), tick_label(5e6), tick_label(2e9)
    ('0.25', '1e-4', '20 k', '5 M', '2 G')
    """
    for lowest, unit, prefix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= lowest:
            return f"{value / unit:g} {prefix}"
    return f"{value:g}" if value >= 0.001 else f"{value:.0e}".replace("e-0", "e-")
