"""Plot of operations and bytes against sequence length, with logarithmic axes.

Linear parts rise with slope 1, quadratic ones with slope 2. The length where scores begin to cost more than the
projections is marked. Lines differ in colour (Okabe and Ito's palette, safe for colour-blind readers), dash and marker,
so that they are distinguishable in grey too.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.costs.estimate import Estimate
from regard.costs.operations import PROJECTIONS
from regard.costs.units import bytes_text, operations_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, ORANGE, INK = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#222222"


def save_plot(estimates: Sequence[Estimate], title: str, path: str | Path) -> None:
    """Write the plot as PNG, SVG or PDF, by the extension of the path."""
    import matplotlib

    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"a plot must be written as .png, .svg or .pdf, got {str(path)!r}")
    with matplotlib.rc_context({"svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 10}):
        cost_figure(estimates, title).savefig(path, dpi=160)


def cost_figure(estimates: Sequence[Estimate], title: str) -> "Figure":
    """Return the plot as a matplotlib figure: operations on the left, bytes on the right."""
    from matplotlib.figure import Figure

    estimates = sorted(estimates, key=lambda estimate: estimate.seq)
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle(title, color=INK, fontsize=11)
    _plot_operations(left, estimates)
    _plot_bytes(right, estimates)
    return figure


def find_crossing(lengths: Sequence[int], rising: Sequence[int | float], other: Sequence[int | float]) -> float | None:
    """Return the length where the rising curve overtakes the other, interpolated linearly between logarithms.

    >>> find_crossing([1, 16], [1, 256], [4, 64])             # x² overtakes 4·x at 4
    4.0
    """
    for n in range(len(lengths) - 1):
        if min(rising[n], rising[n + 1], other[n], other[n + 1]) <= 0:
            continue
        before, after = math.log(rising[n] / other[n]), math.log(rising[n + 1] / other[n + 1])
        if before < 0 <= after:
            fraction = before / (before - after)
            return round(math.exp(math.log(lengths[n]) + fraction * math.log(lengths[n + 1] / lengths[n])), 6)
    return None


def _plot_operations(axes: Any, estimates: Sequence[Estimate]) -> None:
    lengths = [x.seq for x in estimates]
    projections = [sum(x.operations[part].total for part in PROJECTIONS) for x in estimates]
    products = [x.operations["scores"].total + x.operations["weighted sum"].total for x in estimates]
    softmax = [x.operations["softmax"].total for x in estimates]
    total = [x.total.total for x in estimates]
    axes.plot(lengths, total, color=INK, lw=2.2, marker="o", ms=5, label="total")
    axes.plot(lengths, products, color=VERMILION, lw=1.8, ls="--", marker="^", ms=6, label="scores and weighted sum")
    axes.plot(lengths, projections, color=BLUE, lw=1.8, ls="-.", marker="s", ms=5, label="four projections")
    axes.plot(lengths, softmax, color=GREEN, lw=1.8, ls=":", marker="D", ms=4, label="softmax")
    crossing = find_crossing(lengths, products, projections)
    if crossing is not None:
        height = float(np.exp(np.interp(np.log(crossing), np.log(lengths), np.log(projections))))
        axes.plot([crossing, crossing], [min(softmax), height], color=INK, lw=0.9, zorder=1)
        axes.plot([crossing], [height], marker="o", ms=11, mfc="none", mec=INK, mew=1.2)
        style: dict[str, Any] = {"xytext": (7, 0), "textcoords": "offset points", "va": "bottom", "fontsize": 9}
        style["bbox"] = {"fc": "white", "ec": "none", "alpha": 0.85, "pad": 1.5}
        label = f"scores overtake projections\nat S = {crossing:,.0f}"
        axes.annotate(label, (crossing, min(softmax)), color=INK, **style)
    axes.set_ylabel("operations")
    _format_axes(axes, lengths, operations_text, base=10)


def _plot_bytes(axes: Any, estimates: Sequence[Estimate]) -> None:
    lengths = [x.seq for x in estimates]
    matrix = [sum(y.batch * y.heads * y.queries * y.keys * y.itemsize for y in x.layers) for x in estimates]
    activations = [sum(x.bytes[part] for part in ("q, k, v", "context", "output", "log-sum-exp")) for x in estimates]
    stored = any(x.bytes["attention matrix"] for x in estimates)
    label = "attention matrix" if stored else "attention matrix, if it were stored"
    axes.plot(lengths, matrix, color=VERMILION, lw=1.8, ls="--", marker="^", ms=6, label=label)
    peaks = [x.peak for x in estimates]  # hollow markers, since the line of the activations is often at the same height
    axes.plot(lengths, peaks, color=INK, lw=2.2, marker="o", ms=10, mfc="none", mew=1.6, label="peak of the call")
    label = "q, k, v, context, output"
    axes.plot(lengths, activations, color=BLUE, lw=1.8, ls="-.", marker="s", ms=5, label=label)
    for part, colour, dash, marker in (("KV cache", ORANGE, (0, (5, 1)), "v"), ("parameters", GREEN, ":", "D")):
        sizes = [x.bytes[part] for x in estimates]
        if any(sizes):
            axes.plot(lengths, sizes, color=colour, lw=1.8, ls=dash, marker=marker, ms=4, label=part)
    axes.set_ylabel("memory (bytes)")
    _format_axes(axes, lengths, bytes_text, base=2)


def _format_axes(axes: Any, lengths: list[int], text: Callable[[int | float], str], base: int) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=base)
    axes.set_xlabel("sequence length S (tokens)")
    axes.xaxis.set_major_locator(FixedLocator(lengths))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(True, which="major", color="#dddddd", lw=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top * (top / bottom) ** 0.22)  # space for the legend
