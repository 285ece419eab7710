"""Curves of a training run: training and validation loss, and the learning rate below."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.pictures.axes import simplify_frame
from regard.pictures.colours import theme_named
from regard.pictures.picture import Picture, drawing, new_figure


def training_curves(rows: Sequence[Mapping[str, Any]], *, title: str | None = None, theme: str = "light") -> Picture:
    """Draw the loss by step, from the rows of a run's metrics.jsonl.

    Each row has "step", "split" ("train" or "valid") and "loss"; rows of "train" may have "learning_rate".

    >>> rows = [{"step": 10, "split": "train", "loss": 2.0}, {"step": 20, "split": "valid", "loss": 1.0}]
    >>> training_curves(rows).title
    'Training'
    """
    training = [row for row in rows if row["split"] == "train"]
    validation = [row for row in rows if row["split"] == "valid"]
    if not training and not validation:
        raise ValueError("there is nothing to draw: no row has the split “train” or “valid”")
    rates = [row for row in training if "learning_rate" in row]
    title = "Training" if title is None else title
    colours = theme_named(theme)
    with drawing(theme):
        figure = new_figure(7.2, 4.6 if rates else 3.6, title=title)
        ratios = [3.4, 1] if rates else [1]
        axes = figure.subplots(len(ratios), 1, sharex=True, squeeze=False, height_ratios=ratios)
        top = axes[0, 0]
        losses = np.array([row["loss"] for row in (*training, *validation)], dtype=np.float64)
        if training:
            top.plot(*_points(training, "loss"), color=colours.faint, linewidth=1, label="train")
        if validation:
            style: dict[str, Any] = {"color": colours.accent, "linewidth": 1.6, "marker": "o", "markersize": 3.5}
            top.plot(*_points(validation, "loss"), label="valid", **style)
            best = min(validation, key=lambda row: row["loss"])
            top.annotate(
                f"{best['loss']:.3g}", (best["step"], best["loss"]), xytext=(0, -6), textcoords="offset points",
                ha="center", va="top", fontsize=9, color=colours.accent,
            )  # fmt: skip
        positive = losses[np.isfinite(losses)]
        if len(positive) and positive.min() > 0 and positive.max() / positive.min() > 20:
            top.set_yscale("log")
            top.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        top.margins(y=0.12)
        top.set_ylabel("loss (nats a token)")
        top.legend(frameon=False)
        simplify_frame(top, theme)
        bottom = axes[-1, 0]
        if rates:
            bottom.plot(*_points(rates, "learning_rate"), color=colours.faint, linewidth=1)
            bottom.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
            bottom.set(ylabel="learning rate", ylim=(0, None))
            simplify_frame(bottom, theme)
        bottom.set_xlabel("step")
    return Picture(figure, title, theme)


def _points(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[list[float], list[float]]:
    return [row["step"] for row in rows], [row[name] for row in rows]
