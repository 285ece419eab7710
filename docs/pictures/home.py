"""Draw the picture of the home page: `python docs/pictures/home.py`.

One model, three questions. The shipped translator translates "The cat sat on the mat". The picture shows the
cross-attention of its last layer, its translations if it cannot attend to one of the words, and how much of the
difference to "The dog sat on the mat" the output of each head carries. Four files: side by side, and below each other
for phones (`-narrow`), each light and dark (`-dark`).
"""

from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import regard
from regard import training
from regard.interventions import knockout
from regard.pictures import Picture
from regard.pictures.colours import colour_map, ink_on, theme_named
from regard.pictures.picture import drawing

CAT, DOG = "The cat sat on the mat", "The dog sat on the mat"
CROSS = "decoder.layers.1.cross"


def draw(theme: str, *, narrow: bool) -> Picture:
    """Return the picture: three panels side by side or below each other, each with the call that computes it."""
    run = training.load("phrases")
    with drawing(theme):
        figure = Figure(figsize=(4.6, 11.5) if narrow else (11.5, 4.3), layout="constrained")
        if narrow:
            figure.get_layout_engine().set(hspace=0.08)
            see, change, explain = figure.subplots(3, 1)
        else:
            see, change, explain = figure.subplots(1, 3, width_ratios=[1.1, 0.9, 1.2])
        _draw_weights(see, run, theme)
        _draw_knockouts(change, run, theme)
        _draw_patching(explain, run, theme)
    return Picture(figure, "One model, three questions about its attention", theme)


def _title(axes: Axes, theme: str, question: str, code: str) -> None:
    axes.set_title(question, fontsize=13, fontweight="bold", pad=26, loc="left")
    colour = theme_named(theme).accent
    axes.text(0, 1.035, code, transform=axes.transAxes, fontsize=9.5, color=colour, family=["DejaVu Sans Mono"])


def _draw_weights(axes: Axes, run: Any, theme: str) -> None:
    inputs = run.inputs(CAT)
    with torch.no_grad(), regard.watch(run.model) as seen:
        run.model(*inputs.args)
    written, words = inputs.tokens["*.cross"]
    weights = seen[CROSS].weights()[0].mean(0)[: len(written) - 1]
    axes.imshow(weights, cmap=colour_map(theme), vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(words)), words)
    axes.set_yticks(range(len(weights)), written[:-1], fontsize=12)
    for i, j in zip(range(len(weights)), weights.argmax(-1).tolist(), strict=True):
        weight = float(weights[i, j])
        axes.text(j, i, f"{weight:.2f}", ha="center", va="center", color=ink_on(theme, weight))
    _title(axes, theme, "What does it attend to?", "with regard.watch(model) as seen")


def _draw_knockouts(axes: Axes, run: Any, theme: str) -> None:
    rows = [("nothing hidden", run.generate(CAT))]
    for key, word in list(enumerate(CAT.split()))[1:]:
        if word != "the":
            with regard.intervene(run.model, {"*.cross": knockout(keys=key)}):
                rows.append((f"“{word}” hidden", run.generate(CAT)))
    colours = theme_named(theme)
    axes.axis("off")
    for i, (what, translation) in enumerate(rows):
        y = 0.9 - i * 0.2
        axes.text(0, y, what, fontsize=10.5, color=colours.faint, va="center", transform=axes.transAxes)
        colour = colours.ink if translation == rows[0][1] else colours.accent
        axes.text(0.5, y, translation, fontsize=14, color=colour, va="center", transform=axes.transAxes)
    _title(axes, theme, "What if a word is hidden?", "regard.intervene(…, knockout(keys=k))")


def _draw_patching(axes: Axes, run: Any, theme: str) -> None:
    cat, dog = (run.inputs(text).args for text in (CAT, DOG))
    word = int(cat[1][0, 1]), int(dog[1][0, 1])  # 猫 and 狗, the first written words

    def cat_not_dog(logits: Tensor) -> Tensor:
        return logits[0, 0, word[0]] - logits[0, 0, word[1]]

    clean, corrupted = (cat[0], cat[1][:, :1]), (dog[0], dog[1][:, :1])
    result = regard.patching(run.model, clean, corrupted, cat_not_dog, progress=False)
    values = result.values
    axes.imshow(values, cmap=colour_map(theme), vmin=0, vmax=1, aspect="auto")
    names = [
        m.replace("layers.", "").replace(".attention", " self").replace(".cross", " cross") for m in result.modules
    ]
    axes.set_yticks(range(len(names)), names)
    axes.set_xticks(range(values.shape[1]), [f"head {h}" for h in range(values.shape[1])])
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            share = round(float(values[i, j]), 2) + 0.0  # shows -0.00 as 0
            axes.text(j, i, f"{share:.0%}", ha="center", va="center", color=ink_on(theme, share), fontsize=9)
    _title(axes, theme, "Which head carries 猫?", "regard.patching(model, cat, dog, metric)")


if __name__ == "__main__":
    for narrow, name in ((False, "home"), (True, "home-narrow")):
        for theme, ending in (("light", ""), ("dark", "-dark")):
            print(draw(theme, narrow=narrow).save(Path(__file__).with_name(f"{name}{ending}.svg")))
