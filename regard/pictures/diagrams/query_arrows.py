"""Query and keys as arrows in space: keys that point in the direction of the query get the largest weights.

Vectors with more than three numbers are projected onto their first three principal components. The mean is not
subtracted, because arrows start at the origin and their direction matters. A note states how much of the squared
lengths the projection keeps.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.attention.reference import numpy_attention as reference
from regard.pictures.colours import bar_colour, theme_named
from regard.pictures.fonts import labels
from regard.pictures.inputs import check_names, digits, to_float64
from regard.pictures.picture import Picture, drawing, new_figure

Array = np.ndarray


def query_arrows(
    query: Any, keys: Any, tokens: Sequence[str] | None = None, *, weights: Any = None, query_token: str = "query",
    scale: float | None = None, title: str | None = None, theme: str = "light",
) -> Picture:  # fmt: skip
    """Draw one query and the keys as 3-D arrows; the width of a key's arrow shows its weight.

    query, keys             one query (d_k,) and the keys (S, d_k); for d_k > 3 they are projected to three dimensions
                            by PCA
    tokens, query_token     names of the keys and of the query
    weights                 weights of the keys (S,); by default softmax(scale · keys · query)
    scale                   factor of the scores; 1/√d_k by default
    title                   title of the picture; None chooses one
    theme                   "light" or "dark"

    >>> picture = query_arrows([1.0, 0, 0], [[1.0, 0.2, 0], [0, 1.0, 0]], ["cat", "mat"])
    >>> "d_k" in picture.title
    False
    """
    q, k = to_float64(query), to_float64(keys)
    if q.ndim != 1 or k.ndim != 2 or q.shape[0] != k.shape[1]:
        raise ValueError(f"query and keys must be (d_k,) and (S, d_k), got {q.shape} and {k.shape}")
    names = [str(i) for i in range(len(k))] if tokens is None else list(tokens)
    check_names("tokens", names, len(k), "key")
    if weights is None:
        weights = reference.attention(q, k, k, scale=scale, weights=True)[1]
    row = to_float64(weights)
    if row.shape != (len(k),):
        raise ValueError(f"weights must hold one number for each of {len(k)} keys, got shape {row.shape}")
    d_k = len(q)
    points, share = project_to_space(np.vstack([q, k]))
    title = "Query and keys, width by weight" if title is None else title
    note = f"d_k = {d_k}"
    if d_k > 3:
        note += f", projected by PCA to 3: keeps {100 * share:.0f} % of the squared length"
    with drawing(theme):
        figure = new_figure(7.4, 5.6, layout=None)
        figure.subplots_adjust(left=-0.03, right=0.7, bottom=0.1, top=0.94)
        axes = figure.add_subplot(projection="3d")
        figure.suptitle(title, fontweight="bold", fontsize=12, y=0.97)
        figure.text(0.36, 0.02, note, ha="center", fontsize=8.5, color=theme_named(theme).faint)
        _draw_arrows(axes, points, row, labels(names), labels([query_token])[0], theme)
    return Picture(figure, title, theme)


def project_to_space(vectors: Array) -> tuple[Array, float]:
    """Return the vectors projected to three dimensions, and the share of their squared lengths that is kept.

    >>> project_to_space(np.array([[3.0, 4.0]]))
    (array([[3., 4., 0.]]), 1.0)
    """
    count, width = vectors.shape
    if width <= 3:
        return np.hstack([vectors, np.zeros((count, 3 - width))]), 1.0
    directions = np.linalg.svd(vectors, full_matrices=False)[2][:3]
    # The sign of a principal component is arbitrary; choose it so that the query has positive coordinates.
    directions *= np.where(directions @ vectors[0] < 0, -1, 1)[:, None]
    points = vectors @ directions.T
    share = float((points**2).sum() / ((vectors**2).sum() or 1.0))
    return np.hstack([points, np.zeros((count, 3 - points.shape[1]))]), share


def _draw_arrows(axes: Any, points: Array, row: Array, names: list[str], query: str, theme: str) -> None:
    from matplotlib.lines import Line2D

    colours = theme_named(theme)
    reach = float(np.abs(points).max()) or 1.0
    largest = float(row.max()) or 1.0
    order = np.argsort(row, kind="stable")
    handles = {}
    for i in order:
        share = row[i] / largest
        width, colour = 0.8 + 5.2 * share, bar_colour(share, theme)
        _arrow(axes, points[1 + i], colour, width)
        handles[i] = Line2D([], [], color=colour, linewidth=width, label=f"{names[i]}  {digits(row[i])}")
    _arrow(axes, points[0], colours.accent, 2.2, dashed=True)
    listed = list(order[::-1][:14])
    for i in listed[:8]:
        axes.text(*beyond(points[1 + i], reach), names[i], fontsize=9, ha="center", va="center", color=colours.ink)
    above_tip = beyond(points[0], reach) + np.array([0, 0, 0.1 * reach])
    axes.text(*above_tip, query, fontsize=10, ha="center", color=colours.accent, fontweight="bold")
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach))
    axes.set_box_aspect((1, 1, 1), zoom=1.1)
    axes.view_init(elev=20, azim=-52)
    for axis, name in zip((axes.xaxis, axes.yaxis, axes.zaxis), "123", strict=True):
        axis.set_label_text(f"direction {name}", fontsize=8)
        axis.set_tick_params(labelsize=7, labelcolor=colours.faint)
        axis.set_pane_color(colours.panel)
        axis.line.set_color(colours.line)
        axis._axinfo["grid"].update(color=colours.line, linewidth=0.6)
    query_line = Line2D([], [], color=colours.accent, linewidth=2.2, linestyle="--", label=query)
    more = f"\n({len(row) - len(listed)} smaller not listed)" if len(listed) < len(row) else ""
    axes.legend(
        handles=[query_line, *(handles[i] for i in listed)],
        title=f"key  weight{more}", loc="center left", bbox_to_anchor=(1.13, 0.5), frameon=False,
        fontsize=9, title_fontsize=9, handlelength=2.4, labelspacing=0.7,
    )  # fmt: skip


def beyond(tip: Array, reach: float) -> Array:
    """Return a point slightly beyond an arrow's tip, for its name."""
    length = float(np.linalg.norm(tip))
    return tip * (1 + 0.11 * reach / length) if length else tip


def _arrow(axes: Any, tip: Array, colour: Any, width: float, *, dashed: bool = False) -> None:
    style = {"linestyle": "--" if dashed else "-", "arrow_length_ratio": 0.12}
    axes.quiver(0, 0, 0, *tip, color=colour, linewidth=width, **style)
