"""Curves of a training run: losses and learning rate of a text model; errors, games won and loss of a board network."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from regard.pictures.axes import simplify_frame
from regard.pictures.colours import theme_named
from regard.pictures.picture import Picture, drawing, new_figure

THIRDS = (("begin", "o", "-"), ("middle", "s", "--"), ("end", "^", ":"))

Rows = Sequence[Mapping[str, Any]]


def training_curves(rows: Rows, *, title: str | None = None, theme: str = "light") -> Picture:
    """Draw the loss by step, from the rows of a run's metrics.jsonl.

    rows        rows with "step", "split" ("train" or "valid") and "loss"; rows of "train" may have "learning_rate"
    title       title of the picture; None chooses one
    theme       "light" or "dark"

    >>> rows = [{"step": 10, "split": "train", "loss": 2.0}, {"step": 20, "split": "valid", "loss": 1.0}]
    >>> training_curves(rows).title
    'Training'
    """
    training = [row for row in rows if row["split"] == "train"]
    validation = [row for row in rows if row["split"] == "valid"]
    if not training and not validation:
        raise ValueError("there is nothing to draw: expected rows with the split “train” or “valid”, got none")
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
            top.plot(*_by_step(training, "loss"), color=colours.faint, linewidth=1, label="train")
        if validation:
            style: dict[str, Any] = {"color": colours.accent, "linewidth": 1.6, "marker": "o", "markersize": 3.5}
            top.plot(*_by_step(validation, "loss"), label="valid", **style)
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
            bottom.plot(*_by_step(rates, "learning_rate"), color=colours.faint, linewidth=1)
            bottom.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
            bottom.set(ylabel="learning rate", ylim=(0, None))
            simplify_frame(bottom, theme)
        bottom.set_xlabel("step")
    return Picture(figure, title, theme)


def board_training_curves(rows: Rows, *, title: str | None = None, theme: str = "light") -> Picture:
    """Draw error, games won and loss by minute, from the rows of a run's metrics.jsonl.

    rows        rows of a run's metrics.jsonl
    title       title of the picture; None chooses one
    theme       "light" or "dark"

    Rows of the split "grade" have "seconds" and "error", and optionally "error_begin" … and "won_against_…" (shares of
    games); rows of the split "train" have "loss". Where the number of "labels" changes, the evaluation positions change
    too, so the curves are interrupted there.

    >>> rows = [{"split": "grade", "seconds": 60, "error": 0.1}, {"split": "train", "seconds": 30, "loss": 1.2}]
    >>> board_training_curves(rows).title
    'Training'
    """
    evaluations = [row for row in rows if row["split"] == "grade"]
    training = [row for row in rows if row["split"] == "train"]
    if not evaluations:
        raise ValueError("there is nothing to draw: expected rows with the split “grade”, got none")
    won = sorted({name for row in evaluations for name in row if name.startswith("won_against_")})
    title = "Training" if title is None else title
    colours = theme_named(theme)
    from matplotlib.ticker import LogLocator, NullFormatter

    with drawing(theme):
        count = 1 + bool(training) + bool(won)
        figure = new_figure(7.2, 1.6 + 1.9 * count, title=title)
        axes = list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])
        top = axes[0]
        for name, marker, dashes in THIRDS:
            here = [row for row in evaluations if f"error_{name}" in row]
            for number, group in enumerate(_by_labels(here)):
                top.plot(
                    *_by_minute(group, f"error_{name}", 100), color=colours.faint, linewidth=1, linestyle=dashes,
                    marker=marker, markersize=3, label=None if number else name,
                )  # fmt: skip
        for number, group in enumerate(_by_labels(evaluations)):
            top.plot(
                *_by_minute(group, "error", 100), color=colours.accent, linewidth=1.8, label=None if number else "mean",
                marker="o" if len(group) == 1 else "", markersize=3,
            )  # fmt: skip
            if number:
                top.axvline(group[0]["seconds"] / 60, color=colours.faint, linewidth=0.8, linestyle=":")
                top.annotate(
                    f"{group[0]['labels'] / 1e6:.2g} M labels", (group[0]["seconds"] / 60, 1), xytext=(3, -3),
                    xycoords=("data", "axes fraction"), textcoords="offset points", va="top", fontsize=7,
                    color=colours.faint,
                )  # fmt: skip
        best = min(_by_labels(evaluations)[-1], key=lambda row: row["error"])
        top.annotate(
            f"{100 * best['error']:.2f} %", (best["seconds"] / 60, 100 * best["error"]), xytext=(0, -12),
            textcoords="offset points", ha="center", va="center", fontsize=9, color=colours.accent,
        )  # fmt: skip
        top.set_yscale("log")
        top.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        top.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        top.yaxis.set_minor_formatter(NullFormatter())
        top.margins(y=0.25)
        top.set_ylabel("moves that lose (%)")
        top.legend(frameon=False, ncols=4, fontsize=8)
        if won:
            for name, (_, marker, dashes) in zip(won, THIRDS * 3, strict=False):
                here = [row for row in evaluations if name in row]
                label = name.removeprefix("won_against_").replace("_", ":")
                axes[1].plot(
                    *_by_minute(here, name, 100), color=colours.accent, linestyle=dashes, marker=marker, markersize=3,
                    linewidth=1.2, clip_on=False, label=f"against {label}",
                )  # fmt: skip
            axes[1].set(ylim=(0, 100), ylabel="games won (%)")
            axes[1].legend(frameon=False, fontsize=8)
        if training:
            axes[-1].plot(*_by_minute(training, "loss", 1), color=colours.faint, linewidth=1)
            axes[-1].set_ylabel("loss")
        for one in axes:
            simplify_frame(one, theme)
        axes[-1].set_xlabel("minutes of training")
    return Picture(figure, title, theme)


def _by_labels(rows: Rows) -> list[list[Mapping[str, Any]]]:
    """Return the rows in groups with the same number of labels, which were evaluated on the same positions."""
    return [list(group) for _, group in groupby(rows, key=lambda row: row.get("labels"))]


def _by_minute(rows: Rows, name: str, scale: float) -> tuple[list[float], list[float]]:
    return [row["seconds"] / 60 for row in rows], [scale * row[name] for row in rows]


def _by_step(rows: Rows, name: str) -> tuple[list[float], list[float]]:
    return [row["step"] for row in rows], [row[name] for row in rows]
