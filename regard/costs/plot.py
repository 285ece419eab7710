"""The cost as a picture: operations and bytes against length, both axes logarithmic, so that a power is a line.

Linear parts rise with slope 1, quadratic ones with slope 2, and where the two meet is marked: from there on the
pairs cost more than the projections. Lines differ in colour (Okabe and Ito's, safe for colour-blind eyes), dash and
marker, so that they can be told apart in grey as well.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.costs.estimate import Cost, Estimate
from regard.costs.operations import PROJECTIONS
from regard.costs.units import bytes_text, operations_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, ORANGE, INK = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#222222"


def plot(cost: Cost, path: str | Path) -> None:
    """Write the picture as PNG, SVG or PDF, by the end of the name."""
    import matplotlib

    ending = Path(path).suffix.lower()
    if ending not in (".png", ".svg", ".pdf"):
        raise ValueError(f"a plot is written as .png, .svg or .pdf, got {str(path)!r}")
    with matplotlib.rc_context({"svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 10}):
        figure(cost).savefig(path, dpi=160)


def figure(cost: Cost) -> "Figure":
    """The picture as a matplotlib figure."""
    from matplotlib.figure import Figure

    found = sorted(cost.estimates, key=lambda one: one.seq)
    drawn = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = drawn.subplots(1, 2)
    drawn.suptitle(
        f"Attention, {'forward and backward' if cost.backward else 'forward'}: {cost.what}", color=INK, fontsize=11
    )
    _operations(left, found)
    _bytes(right, found, cost.backward)
    return drawn


def crossing(lengths: Sequence[int], rising: Sequence[float], level: Sequence[float]) -> float | None:
    """The length at which the rising line overtakes the other, along straight lines between logarithms.

    >>> crossing([1, 16], [1, 256], [4, 64])             # x² overtakes 4·x at 4
    4.0
    """
    for n in range(len(lengths) - 1):
        if min(rising[n], rising[n + 1], level[n], level[n + 1]) <= 0:
            continue
        before, after = math.log(rising[n] / level[n]), math.log(rising[n + 1] / level[n + 1])
        if before < 0 <= after:
            share = before / (before - after)
            return round(math.exp(math.log(lengths[n]) + share * math.log(lengths[n + 1] / lengths[n])), 6)
    return None


def _operations(axes: Any, found: list[Estimate]) -> None:
    lengths = [one.seq for one in found]
    projections = [sum(one.operations[part].total for part in PROJECTIONS) for one in found]
    pairs = [one.operations["scores"].total + one.operations["weighted sum"].total for one in found]
    softmax = [one.operations["softmax"].total for one in found]
    total = [one.total.total for one in found]
    axes.plot(lengths, total, color=INK, lw=2.2, marker="o", ms=5, label="total")
    axes.plot(lengths, pairs, color=VERMILION, lw=1.8, ls="--", marker="^", ms=6, label="scores and weighted sum")
    axes.plot(lengths, projections, color=BLUE, lw=1.8, ls="-.", marker="s", ms=5, label="four projections")
    axes.plot(lengths, softmax, color=GREEN, lw=1.8, ls=":", marker="D", ms=4, label="softmax")
    where = crossing(lengths, pairs, projections)
    if where is not None:
        height = float(np.exp(np.interp(np.log(where), np.log(lengths), np.log(projections))))
        axes.plot([where, where], [min(softmax), height], color=INK, lw=0.9, zorder=1)
        axes.plot([where], [height], marker="o", ms=11, mfc="none", mec=INK, mew=1.2)
        axes.annotate(
            f"scores overtake projections\nat S = {where:,.0f}",
            (where, min(softmax)),
            xytext=(7, 0),
            textcoords="offset points",
            va="bottom",
            fontsize=9,
            color=INK,
            bbox={"fc": "white", "ec": "none", "alpha": 0.85, "pad": 1.5},
        )
    axes.set_ylabel("operations")
    _finish(axes, lengths, operations_text)


def _bytes(axes: Any, found: list[Estimate], backward: bool) -> None:
    lengths = [one.seq for one in found]
    matrix = [sum(x.batch * x.heads * x.queries * x.keys * x.size for x in one.layers) for one in found]
    activations = [sum(one.bytes[part] for part in ("q, k, v", "context", "output", "log-sum-exp")) for one in found]
    written = any(one.bytes["attention matrix"] for one in found)
    label = "attention matrix" if written else "attention matrix, if it were written out"
    axes.plot(lengths, matrix, color=VERMILION, lw=1.8, ls="--", marker="^", ms=6, label=label)
    peaks = [one.peak for one in found]  # hollow, since what lies beneath is often just as much
    axes.plot(lengths, peaks, color=INK, lw=2.2, marker="o", ms=10, mfc="none", mew=1.6, label="peak of the call")
    name = "q, k, v, context, output"
    axes.plot(lengths, activations, color=BLUE, lw=1.8, ls="-.", marker="s", ms=5, label=name)
    for part, colour, dash, mark in (("KV cache", ORANGE, (0, (5, 1)), "v"), ("parameters", GREEN, ":", "D")):
        values = [one.bytes[part] for one in found]
        if any(values):
            axes.plot(lengths, values, color=colour, lw=1.8, ls=dash, marker=mark, ms=4, label=part)
    axes.set_ylabel("memory (bytes)")
    _finish(axes, lengths, bytes_text, base=2)


def _finish(axes: Any, lengths: list[int], text: Any, base: int = 10) -> None:
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
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top * (top / bottom) ** 0.22)  # room for the legend
