"""Draw docs/pictures/trace.svg: from scores to weights, with the numbers of a real trace.

    python docs/pictures/trace.py

The same numbers as `regard trace "The cat sat on the mat" --mask causal`, head 0.
"""

from html import escape
from pathlib import Path

import numpy as np

from regard.attention import Trace, embed, explain_cell, projections, trace_layer

WORDS = ["The", "cat", "sat", "on", "the", "mat"]
QUERY, KEY = 5, 4  # the pair followed from panel to panel
CELL, ROW, LABEL, GAP = 44, 30, 40, 34
TOP, LEFT = 104, 28
INK, FAINT, LINE, CARD, MARK = "#1c2430", "#7a8494", "#dfe4ec", "#ffffff", "#d9480f"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SANS = "system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"


def draw() -> str:
    """The picture as SVG text."""
    trace = trace_layer(embed(WORDS, 8), *projections(8), heads=2, tokens=WORDS, mask=np.tri(6, dtype=bool))
    panel = LABEL + CELL * len(WORDS)
    width = 2 * LEFT + 3 * panel + 2 * GAP
    height = TOP + ROW * len(WORDS) + 138
    titles = {
        "scale": ("Q · Kᵀ / √d_k", "how well does each key answer each query?"),
        "mask": ("mask", "what comes later is hidden: −∞"),
        "weights": ("softmax", "each row adds up to 1"),
    }
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Attention over The cat sat on the mat: scores, mask and weights, number by number" '
        f'font-family="{SANS}" font-size="13" fill="{INK}">',
        rectangle(0.5, 0.5, width - 1, height - 1, CARD, radius=10, stroke=LINE),
    ]
    for i, (step, (title, subtitle)) in enumerate(titles.items()):
        x = LEFT + i * (panel + GAP)
        parts.append(text(x + LABEL, 34, title, size=17, weight=600))
        parts.append(text(x + LABEL, 54, subtitle, fill=FAINT, size=12.5))
        parts += matrix(trace, step, x)
        if i:
            parts.append(arrow(x - GAP + 6, TOP + ROW * len(WORDS) / 2))
    return "\n".join([*parts, *share(trace, width), "</svg>", ""])


def matrix(trace: Trace, step: str, x: float) -> list[str]:
    """One panel: tokens on both sides, a number in every cell, the followed pair framed."""
    values = trace[step].values[0]
    lines = []
    for j, word in enumerate(WORDS):
        lines.append(text(x + LABEL + (j + 0.5) * CELL, TOP - 10, word, anchor="middle", fill=FAINT))
    for i, word in enumerate(WORDS):
        y = TOP + i * ROW
        lines.append(text(x + LABEL - 9, y + ROW / 2 + 4.5, word, anchor="end", fill=FAINT))
        for j in range(len(WORDS)):
            value, hidden = values[i, j], j > i and step != "scale"
            colours = share_colour if step == "weights" else score_colour
            back, ink = (CARD, "#b8c0cc") if hidden else colours(value)
            left = x + LABEL + j * CELL
            lines.append(rectangle(left + 1, y + 1, CELL - 2, ROW - 2, back))
            shown = ("−∞" if step == "mask" else "0") if hidden else f"{value:.2f}".replace("-", "−")
            lines.append(text(left + CELL / 2, y + ROW / 2 + 4.5, shown, anchor="middle", fill=ink, size=12, mono=True))
    left, top = x + LABEL + KEY * CELL, TOP + QUERY * ROW
    return [*lines, rectangle(left, top, CELL, ROW, "none", radius=5, stroke=MARK, thick=2)]


def share(trace: Trace, width: float) -> list[str]:
    """The row of the followed query as a bar, each key as wide as its weight, under its worked-out cell."""
    y = TOP + ROW * len(WORDS) + 40
    lines = [
        text(LEFT, y, explain_cell(trace, "exponentials", QUERY, KEY), mono=True, fill=MARK),
        text(width - LEFT, y, explain_cell(trace, "weights", QUERY, KEY), mono=True, fill=MARK, anchor="end"),
        text(LEFT, y + 42, f"“{WORDS[QUERY]}” attends to", fill=FAINT),
    ]
    x, room = LEFT + 122.0, width - 2 * LEFT - 122
    for word, weight in zip(WORDS, trace.weights[0, QUERY], strict=True):
        back, ink = share_colour(weight)
        lines.append(rectangle(x + 1, y + 20, room * weight - 2, 34, back))
        middle = x + room * weight / 2
        lines.append(text(middle, y + 35, word, anchor="middle", fill=ink, size=12))
        lines.append(text(middle, y + 48, f"{weight:.2f}", anchor="middle", fill=ink, size=11, mono=True))
        x += room * weight
    about = "context(mat) is the average of the values with these weights"
    return [*lines, text(LEFT + 122, y + 76, about, fill=FAINT, size=12.5)]


def score_colour(value: float) -> tuple[str, str]:
    """Blue below zero, amber above; pale, since scores are only on the way."""
    strength = min(abs(value) / 1.3, 1.0)
    return blend("#ffd8a8" if value > 0 else "#bcd4f6", 0.12 + 0.88 * strength), INK


def share_colour(value: float) -> tuple[str, str]:
    """From white to deep blue with the weight."""
    return blend("#1f4e9e", 0.08 + 0.92 * value**0.7), "#ffffff" if value > 0.3 else INK


def blend(colour: str, strength: float) -> str:
    """The colour on the card, this strong."""
    pairs = [(int(CARD[i : i + 2], 16), int(colour[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * strength):02x}" for a, b in pairs)


def rectangle(
    x: float,
    y: float,
    w: float,
    h: float,
    fill: str,
    *,
    radius: float = 4,
    stroke: str = "none",
    thick: float = 1,
) -> str:
    """A rounded rectangle."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius}"'
    return f'<rect {place} fill="{fill}" stroke="{stroke}" stroke-width="{thick}"/>'


def arrow(x: float, y: float) -> str:
    """A small arrow to the right."""
    head = f"M{x + 20} {y} m-6 -5 l6 5 l-6 5"
    return f'<path d="M{x} {y} H{x + 20} {head}" fill="none" stroke="{FAINT}" stroke-width="1.6"/>'


def text(
    x: float,
    y: float,
    content: str,
    *,
    anchor: str = "start",
    fill: str = INK,
    size: float = 13,
    weight: int = 400,
    mono: bool = False,
) -> str:
    """One line of text."""
    family = f' font-family="{MONO}"' if mono else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}" '
        f'font-weight="{weight}"{family}>{escape(content)}</text>'
    )


if __name__ == "__main__":
    file = Path(__file__).with_suffix(".svg")
    file.write_text(draw(), encoding="utf-8")
    print(f"wrote {file}")
