"""Diagram of the computation of self-attention, with the shapes of a trace.

    X → Q, K, V → scores → scale → mask → softmax → context → merge → W_o

Boxes are arrays with their shapes in letters and numbers; arrows are labelled with the operations.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.attention import Part, Trace
from regard.pictures.colours import theme_named
from regard.pictures.fonts import columns
from regard.pictures.picture import Picture, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BOX, GAP = 0.62, 0.42  # inches: height of a box, and space for an arrow


@dataclass(frozen=True)
class Box:
    """An array in the diagram: x coordinate of its centre, row, text, shape and width."""

    x: float
    row: int
    text: str
    shape: str
    width: float


def computation_flow(trace: Trace, *, title: str | None = None, theme: str = "light") -> Picture:
    """Draw the computation of one trace, from the tokens' vectors (or from Q, K and V) to the output.

    trace       a trace of `regard.trace` or `trace_layer`
    title       title of the picture; None chooses one
    theme       "light" or "dark"

    >>> from regard.attention import embed, projections, trace_layer
    >>> words = ["The", "cat", "sat"]
    >>> trace = trace_layer(embed(words, 8), *projections(8), heads=2, tokens=words)
    >>> computation_flow(trace).title
    'Self-attention: 3 tokens, 2 heads of width 4'
    """
    layer = trace.kind == "layer"
    split = trace["split"].parts if layer else trace.inputs
    q, k, v = split[0], split[1], split[2]
    own = trace.tokens == trace.key_tokens
    title = _title(trace, q, own) if title is None else title

    centre, right = 3.7, 5.9
    boxes: dict[str, Box] = {}
    notes: list[tuple[str, str, str]] = []  # from, to, operation
    row = 0
    if layer:
        x, c = trace.inputs[0], next((p for p in trace.inputs if p.symbol in ("C", "context")), None)
        boxes["X"] = Box(1.5 if c is not None else centre, row, f"{x.symbol}: the tokens’ vectors", shape_of(x), 2.6)
        if c is not None:
            boxes["C"] = Box(centre + 1.3, row, f"{c.symbol}: the context’s vectors", shape_of(c), 2.6)
        row += 1
        for part, place in zip(trace["project"].parts, (1.5, centre, right), strict=True):
            boxes[f"{part.symbol}, whole"] = Box(place, row, part.symbol, shape_of(part), 1.75)
            start = "C" if c is not None and part.symbol != "Q" else "X"
            notes.append((start, f"{part.symbol}, whole", f"· W_{part.symbol.lower()}"))
        row += 1
    for part, place in zip((q, k, v), (1.5, centre, right), strict=True):
        boxes[part.symbol] = Box(place, row, f"{part.symbol} by head" if layer else part.symbol, shape_of(part), 1.75)
        if layer:
            notes.append((f"{part.symbol}, whole", part.symbol, "split"))
    row += 1
    middle = (1.5 + centre) / 2
    rule = trace.mask if trace.mask and columns(trace.mask) <= 22 else "hidden → −∞"
    before = ""
    for name, text, operation in (
        ("scores", "scores = Q · Kᵀ", ""),
        ("scale", "scaled scores", f"× {trace.scale:.3g}"),
        ("mask", "masked scores", f"mask: {rule}" if trace.mask else "no mask"),
        ("weights", "weights: rows add up to 1", "softmax over keys"),
    ):
        boxes[name] = Box(middle, row, text, shape_of(trace.part(name)), 2.9)
        if before:
            notes.append((before, name, operation))
        before = name
        row += 1
    notes += [("Q", "scores", "every query"), ("K", "scores", "with every key")]
    boxes["context"] = Box(centre, row, "context = weights · V", shape_of(trace.part("context")), 2.9)
    notes += [("weights", "context", ""), ("V", "context", "averaged")]
    row += 1
    if layer:
        boxes["merge"] = Box(centre, row, "heads side by side", shape_of(trace.part("merge")), 2.9)
        boxes["output"] = Box(centre, row + 1, "output", shape_of(trace.part("output")), 2.9)
        notes += [("context", "merge", "merge"), ("merge", "output", "· W_o")]
        row += 2

    with drawing(theme):
        tall = row * (BOX + GAP) - GAP
        figure = new_figure(7.4, tall + 1.0, layout=None)
        axes = figure.add_axes((0, 0, 1, tall / (tall + 1.0)))
        axes.set(xlim=(0, 7.4), ylim=(tall + 0.15, -0.15))
        axes.axis("off")
        figure.suptitle(title, fontweight="bold", fontsize=13, y=1 - 0.28 / (tall + 1.0))
        letters = ", ".join(dict.fromkeys(f"{name} = {size}" for name, size in _sizes(trace).items()))
        figure.text(0.5, 1 - 0.62 / (tall + 1.0), letters, ha="center", fontsize=9, color=theme_named(theme).faint)
        for start, end, operation in notes:
            _arrow(axes, boxes[start], boxes[end], operation, theme)
        for name, box in boxes.items():
            _draw_box(axes, box, theme, strong=name in ("weights", "output"))
    return Picture(figure, title, theme)


def shape_of(part: Part) -> str:
    """Return the shape of an array in letters and numbers.

    >>> import numpy as np
    >>> shape_of(Part("Q", np.zeros((2, 6, 4)), ("H", "L", "d_k")))
    '(H, L, d_k) = (2, 6, 4)'
    """
    return f"({', '.join(part.letters)}) = ({', '.join(map(str, part.shape))})"


def _sizes(trace: Trace) -> dict[str, int]:
    parts = [*trace.inputs, *(part for step in trace.steps for part in step.parts)]
    sizes = {letter: size for part in parts for letter, size in zip(part.letters, part.shape, strict=True)}
    order = ["B", "H", "H_kv", "L", "S", "D", "d_k", "d_v"]
    return {letter: sizes[letter] for letter in order if letter in sizes}


def _title(trace: Trace, q: Part, own: bool) -> str:
    L, S = len(trace.tokens), len(trace.key_tokens)
    counted = f"{L} token{'s' * (L > 1)}" if own else f"{L} queries on {S} keys"
    heads = f"{trace.heads} head{'s' * (trace.heads > 1)} of width {q.shape[-1]}"
    return f"{'Self-attention' if own else 'Attention'}: {counted}, {heads}"


def _top(box: Box) -> float:
    return box.row * (BOX + GAP)


def _draw_box(axes: "Axes", box: Box, theme: str, *, strong: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    colours = theme_named(theme)
    edge, width = (colours.accent, 1.8) if strong else (colours.faint, 0.9)
    corner, rounded = (box.x - box.width / 2, _top(box)), "round,pad=0,rounding_size=0.09"
    style: Any = {"facecolor": colours.panel, "edgecolor": edge, "linewidth": width}
    axes.add_patch(FancyBboxPatch(corner, box.width, BOX, boxstyle=rounded, **style))
    axes.text(box.x, _top(box) + 0.2, box.text, ha="center", va="center", fontsize=10.5, fontweight="bold")
    axes.text(box.x, _top(box) + 0.44, box.shape, ha="center", va="center", fontsize=8.5, color=colours.faint)


def _arrow(axes: "Axes", start: Box, end: Box, operation: str, theme: str) -> None:
    """Draw an arrow from the lower edge of one box to the upper edge of a later one, labelled with the operation."""
    colours = theme_named(theme)
    y0, y1 = _top(start) + BOX, _top(end)
    reach = end.width / 2 - 0.25
    x1 = min(max(start.x, end.x - reach), end.x + reach)
    head = "-|>,head_width=0.18,head_length=0.35"
    style = {"arrowstyle": head, "color": colours.faint, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (x1, y1), (start.x, y0), arrowprops=style)
    if operation:
        at = max(0.5, 1 - 0.5 * (GAP / (y1 - y0)))  # the label of a long arrow is near its tip
        x = start.x + (x1 - start.x) * at
        aside = 0.1 if abs(x1 - start.x) < GAP or y1 - y0 > 2 * GAP else 0.34  # keeps the label off a flat arrow
        leaning = x1 < start.x and y1 - y0 < 2 * GAP  # the label is on the side to which the arrow leans
        axes.text(
            x + (-aside if leaning else aside), y0 + (y1 - y0) * at, operation, ha="right" if leaning else "left",
            va="center", fontsize=8.5, color=colours.accent,
            bbox={"facecolor": colours.background, "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
