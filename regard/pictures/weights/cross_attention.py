"""Cross-attention between two sentences: lines above, the same numbers as a heatmap below.

The queries are the words being written (猫坐在垫子上), the keys the words being read (The cat sat on the mat).
"""

from collections.abc import Sequence
from typing import Any

from regard.pictures.colours import theme_named
from regard.pictures.fonts import columns, labels
from regard.pictures.inputs import check_index, named_weights
from regard.pictures.picture import Picture, drawing, new_figure
from regard.pictures.weights.head_lines import draw_lines, spread
from regard.pictures.weights.heatmap import LETTER, cell_size, draw_heat, lie_down


def cross_attention(
    weights: Any,
    tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    *,
    head: int = 0,
    least: float | None = None,
    title: str | None = None,
    theme: str = "light",
) -> Picture:
    """The weights (L, S) of one sentence's tokens (queries) on another's (keys): lines, and the numbers.

    >>> picture = cross_attention([[0.9, 0.1], [0.2, 0.8]], ["猫", "坐"], ["cat", "sat"])
    >>> [text.get_text() for text in picture.figure.axes[0].texts][:4]
    ['猫', '坐', 'cat', 'sat']
    """
    array, queries, keys = named_weights(weights, tokens, key_tokens, 3)
    shown = array[check_index("head", head, len(array))]
    least = (0.01 if len(keys) <= 16 else 2 / len(keys)) if least is None else least
    title = "Cross-attention" if title is None else title
    colours = theme_named(theme)
    with drawing(theme):
        above, below = labels(queries), labels(keys)
        cell = cell_size(max(shown.shape))
        longest = max(shown.shape)
        tall = LETTER * max(map(columns, below)) if lie_down(below, cell) else 0.2
        width = max(LETTER * max(map(columns, above)) + cell * len(keys) + 2.2, 0.34 * longest + 1.4, 5.0)
        turned = [lie_down(names, 0.9 * (width - 1.5) / len(names)) for names in (above, below)]
        room = [LETTER * max(map(columns, n)) if t else 0.2 for n, t in zip((above, below), turned, strict=True)]
        heights = [1.9 + sum(room), cell * len(queries) + tall + 0.8]
        figure = new_figure(width, sum(heights) + 0.6)
        figure.suptitle(title, fontweight="bold", fontsize=12)
        top, bottom = figure.subplots(2, 1, height_ratios=heights)

        largest = float(shown.max()) or 1.0
        draw_lines(top, shown, least, largest, theme, upright=True)
        for x, name in zip(spread(len(above), longest), above, strict=True):
            top.text(x, 1.03, name, ha="center", va="bottom", fontsize=10.5, rotation=90 * turned[0])
        for x, name in zip(spread(len(below), longest), below, strict=True):
            top.text(x, -0.03, name, ha="center", va="top", fontsize=10.5, rotation=90 * turned[1])
        top.text(-0.95, 1.03, "queries", ha="right", va="bottom", fontsize=9, color=colours.faint)
        top.text(-0.95, -0.03, "keys", ha="right", va="top", fontsize=9, color=colours.faint)
        top.set_xlim(-0.8, longest - 0.2)
        top.set_ylim(0, 1)
        top.axis("off")

        image = draw_heat(bottom, shown, above, below, (0.0, largest), theme, cell)
        bottom.set_xlabel("key")
        bottom.xaxis.set_label_position("top")
        bottom.set_ylabel("query")
        bar = figure.colorbar(image, ax=bottom, label="weight", aspect=24, pad=0.03)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8)
    return Picture(figure, title, theme)
