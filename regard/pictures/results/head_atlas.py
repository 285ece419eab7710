"""The head atlas: a row for each head, a column for each kind, and a page with all numbers."""

import os
from html import escape
from pathlib import Path

import numpy as np

from regard.files import write_atomic
from regard.pictures.axes import draw_cell_grid, hide_spines, label_width, write_in_cell
from regard.pictures.colours import colour_map, theme_named
from regard.pictures.fonts import labels
from regard.pictures.picture import Picture, drawing, new_figure
from regard.watching.head_atlas.atlas import Atlas
from regard.watching.head_atlas.detectors import KINDS
from regard.watching.head_table import abbreviate_call_names

MOST_ROWS = 160  # of more heads, only those with a label are drawn
STYLE = (
    "body{{font:15px/1.5 system-ui,sans-serif;margin:1.5rem auto;max-width:64rem;padding:0 1rem;color:{ink};"
    "background:{background}}}svg{{max-width:100%;height:auto}}.scrolls{{overflow-x:auto}}"
    "table{{border-collapse:collapse;font-variant-numeric:tabular-nums}}th,td{{padding:.15rem .6rem;text-align:right;"
    "white-space:nowrap}}th:first-child,td:first-child,td:last-child,th:last-child{{text-align:left}}"
    "tbody tr:nth-child(odd){{background:{panel}}}.label{{font-weight:650}}"
)


def head_atlas(atlas: Atlas, *, title: str | None = None, theme: str = "light") -> Picture:
    """Draw heads × kinds: the scores in percent; ● marks labels that ablation confirms, ○ labels that it does not.

    >>> import regard
    >>> model = regard.models.Decoder(regard.models.DecoderConfig(50, d_model=16, heads=2, layers=1)).eval()
    >>> len(head_atlas(regard.atlas(model, length=32)).figure.axes[0].texts)
    12
    """
    heads = atlas.heads if len(atlas.heads) <= MOST_ROWS else [x for x in atlas.heads if x.labels]
    names = _short_names(atlas)
    rows = [f"{names[x.module]} : {x.head}" for x in heads]
    values = np.array([[x.scores[kind] for kind in KINDS] for x in heads]).reshape(len(heads), len(KINDS))
    title = title or f"What each head does, on {atlas.length} random tokens"
    with drawing(theme):
        labelled = labels(rows)
        width = 0.6 + label_width(labelled) + 0.86 * len(KINDS)
        figure = new_figure(max(width, 5.0), max(0.24 * len(rows) + 1.5, 2.4), title=title)
        axes = figure.subplots()
        axes.imshow(values, cmap=colour_map(theme), vmin=0, vmax=1, aspect="auto")
        for i, head in enumerate(heads):
            for j, kind in enumerate(KINDS):
                mark = "" if kind not in head.labels else " ●" if kind in head.confirmed else " ○"
                text = f"{100 * values[i, j]:.0f}{mark}"
                write_in_cell(axes, i, j, text, float(values[i, j]), theme)
        axes.set_xticks(range(len(KINDS)), [kind.replace(" ", "\n") for kind in KINDS])
        axes.set_yticks(range(len(rows)), labelled)
        axes.tick_params(length=0, which="both", top=False, labeltop=True, bottom=False, labelbottom=False)
        draw_cell_grid(axes, len(rows), len(KINDS), theme_named(theme).background, 1.5)
        axes.set_xlabel("mean weight in percent;  ● label confirmed by ablation,  ○ not confirmed", fontsize=8.5)
        hide_spines(axes)
    return Picture(figure, title, theme)


def save_atlas(atlas: Atlas, file: str | os.PathLike[str], *, title: str | None, theme: str) -> Path:
    """Write the picture, or a page with it and a table, by the ending of the file."""
    picture = head_atlas(atlas, title=title, theme=theme)
    path = Path(file)
    if path.suffix.lower() != ".html":
        return picture.save(path)
    names = _short_names(atlas)
    head = "".join(f"<th scope=col>{name}</th>" for name in ("head", *KINDS, "labels", "effect of ablation"))
    body = "".join(
        f"<tr><td>{escape(names[x.module])} : {x.head}</td>"
        + "".join(f"<td{' class=label' * (kind in x.labels)}>{x.scores[kind]:.3f}</td>" for kind in KINDS)
        + f"<td>{escape(', '.join(k if k in x.confirmed else f'({k})' for k in x.labels))}</td>"
        + f"<td>{escape(', '.join(f'{k} {effect:.3f}' for k, effect in x.effects.items()))}</td></tr>\n"
        for x in atlas.heads
    )
    colours = theme_named(theme)
    style = STYLE.format(ink=colours.ink, background=colours.background, panel=colours.panel)
    page = (
        f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(picture.title)}</title>\n"
        f"<style>{style}</style>\n<main>\n<h1>{escape(picture.title)}</h1>\n"
        f"<p>Scores are mean weights on the place that each kind of head looks at. Labels in brackets are not "
        f"confirmed by ablating the head.</p>\n{picture.svg()}\n"
        f"<div class=scrolls tabindex=0><table>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>{body}</tbody></table></div>\n</main>\n</html>\n"
    )
    return write_atomic(path, page.encode())


def _short_names(atlas: Atlas) -> dict[str, str]:
    modules = list(dict.fromkeys(x.module for x in atlas.heads))
    return dict(zip(modules, abbreviate_call_names(modules)[1], strict=True))
