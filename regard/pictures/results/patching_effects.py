"""Effects of activation patching: how much of the difference between two runs each head recovers."""

import numpy as np

from regard.pictures.axes import draw_cell_grid, hide_spines, label_width
from regard.pictures.colours import legible_on, signed_colour_map, theme_named
from regard.pictures.fonts import labels
from regard.pictures.picture import Picture, drawing, new_figure
from regard.watching.head_table import abbreviate_call_names
from regard.watching.interventions.activation_patching import PatchingResult

LARGEST_NUMBERS = 400  # cells of a picture in which numbers are written


def patching_effects(result: PatchingResult, *, title: str | None = None, theme: str = "light") -> Picture:
    """Draw calls × heads, or with (head, query) one row per head and one column per query.

    result      what `regard.patching` returns
    title       title of the picture; None chooses one
    theme       "light" or "dark"

    Effects towards the clean run are blue (dark theme: light blue), effects away from it orange.

    >>> import torch
    >>> from regard.watching.interventions.activation_patching import PatchingResult
    >>> result = PatchingResult(torch.tensor([[0.75, 0.0], [-0.25, 0.1]]), ["layers.0.attn", "layers.1.attn"], 1.0, 0.0)
    >>> [text.get_text() for text in patching_effects(result).figure.axes[0].texts]
    ['75', '0', '−25', '10']
    """
    values = result.values.double().numpy()
    _, names = abbreviate_call_names(result.modules)
    title = title or "Recovered by patching one head"
    rows, columns, sides = names, "head", "module"
    if values.ndim == 3:
        kept = ~np.isnan(values).all(-1)
        rows, columns = [f"{names[i]} : {h}" for i, h in np.argwhere(kept)], "query"
        sides = "module : head"
        values = values[kept]
    with drawing(theme):
        labelled = labels(rows)
        left, cell = 0.4 + label_width(labelled), 0.46 if values.size <= LARGEST_NUMBERS else 0.2
        width = max(left + cell * values.shape[1] + 0.6, 4.5, 0.12 * len(title))
        figure = new_figure(width, max(0.34 * len(rows) + 1.5, 2.4), title=title)
        axes = figure.subplots()
        top, colours = max(1.0, float(np.nanmax(np.abs(values)))), signed_colour_map(theme)
        axes.imshow(values, cmap=colours, vmin=-top, vmax=top, aspect="auto")
        if values.size <= LARGEST_NUMBERS:
            for (i, j), value in np.ndenumerate(values):
                if np.isfinite(value):
                    text = str(round(100 * value)).replace("-", "−")
                    ink = legible_on(colours(0.5 + 0.5 * value / top))
                    axes.text(j, i, text, ha="center", va="center", fontsize=8.5, color=ink)
        axes.set_xticks(range(0, values.shape[1], max(1, values.shape[1] // 24)))
        axes.set_yticks(range(len(rows)), labelled)
        draw_cell_grid(axes, len(rows), values.shape[1], theme_named(theme).background, 1.5)
        axes.tick_params(length=0, which="both", top=False, labeltop=True, bottom=False, labelbottom=False)
        axes.set_xlabel(columns, fontsize=8.5)
        axes.set_ylabel(sides, fontsize=8.5)
        axes.xaxis.set_label_position("top")
        caption = f"In percent of the difference. Metric: clean {result.clean:.3g}, corrupted {result.corrupted:.3g}"
        figure.supxlabel(caption, fontsize=8.5, color=theme_named(theme).faint)
        hide_spines(axes)
    return Picture(figure, title, theme)
