"""Cross-attention between two sentences: lines above, a heatmap of the same weights below.

The queries are the tokens of the target sentence (猫坐在垫子上), the keys those of the source (The cat sat on the mat).
"""

from collections.abc import Sequence
from typing import Any

from regard.pictures.axes import add_colour_bar, label_width, must_rotate
from regard.pictures.colours import theme_named
from regard.pictures.fonts import labels
from regard.pictures.inputs import check_index, named_weights
from regard.pictures.picture import Picture, drawing, new_figure
from regard.pictures.weights.head_lines import default_least, draw_lines, spread
from regard.pictures.weights.token_heatmaps import cell_size, draw_heat, label_axes


def cross_attention(
    weights: Any, tokens: Sequence[str] | None = None, key_tokens: Sequence[str] | None = None, *, head: int = 0,
    least: float | None = None, title: str | None = None, theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw the weights of one sentence's tokens (queries) on another's (keys), as lines and as a heatmap.

    weights             weights (L, S), or (H, L, S)
    tokens, key_tokens  names of the queries and of the keys; numbers by default
    head                head to draw
    least               smallest weight to draw as a line; by default 0.01, or 2/S for more than 16 keys
    title               title of the picture; None chooses one
    theme               "light" or "dark"

    >>> picture = cross_attention([[0.9, 0.1], [0.2, 0.8]], ["猫", "坐"], ["cat", "sat"])
    >>> [text.get_text() for text in picture.figure.axes[0].texts][:4]
    ['猫', '坐', 'cat', 'sat']
    """
    array, queries, keys = named_weights(weights, tokens, key_tokens, 3)
    weights = array[check_index("head", head, len(array))]
    least = default_least(len(keys)) if least is None else least
    title = "Cross-attention" if title is None else title
    with drawing(theme):
        above, below = labels(queries), labels(keys)
        longest = max(weights.shape)
        cell = cell_size(longest)
        tall = label_width(below) if must_rotate(below, cell) else 0.2
        width = max(label_width(above) + cell * len(keys) + 2.2, 0.34 * longest + 1.4, 5.0)
        rotated = [must_rotate(names, 0.9 * (width - 1.5) / len(names)) for names in (above, below)]
        space = [label_width(n) if r else 0.2 for n, r in zip((above, below), rotated, strict=True)]
        heights = [1.9 + sum(space), cell * len(queries) + tall + 0.8]
        figure = new_figure(width, sum(heights) + 0.6, title=title)
        top, bottom = figure.subplots(2, 1, height_ratios=heights)

        largest = float(weights.max()) or 1.0
        draw_lines(top, weights, least, largest, theme, upright=True)
        sides = ((above, 1.03, "bottom", "queries"), (below, -0.03, "top", "keys"))
        for (names, y, va, _), rotate in zip(sides, rotated, strict=True):
            for x, name in zip(spread(len(names), longest), names, strict=True):
                top.text(x, y, name, ha="center", va=va, fontsize=10.5, rotation=90 * rotate)
        for _, y, va, side in sides:
            top.text(-0.95, y, side, ha="right", va=va, fontsize=9, color=theme_named(theme).faint)
        top.set(xlim=(-0.8, longest - 0.2), ylim=(0, 1))
        top.axis("off")

        image = draw_heat(bottom, weights, above, below, (0.0, largest), theme, cell)
        label_axes(bottom)
        add_colour_bar(figure, image, bottom, "weight")
    return Picture(figure, title, theme)
