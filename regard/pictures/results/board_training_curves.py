"""Curves of a board network's training: moves that lose according to the solver, games won, and the loss."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from regard.pictures.axes import simplify_frame
from regard.pictures.colours import theme_named
from regard.pictures.picture import Picture, drawing, new_figure

THIRDS = (("begin", "o", "-"), ("middle", "s", "--"), ("end", "^", ":"))


def board_training_curves(
    rows: Sequence[Mapping[str, Any]], *, title: str | None = None, theme: str = "light"
) -> Picture:
    """Draw error, games won and loss by minute, from the rows of a run's metrics.jsonl.

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
        raise ValueError("there is nothing to draw: no row has the split “grade”")
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


def _by_labels(rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the rows in groups that were evaluated on the same positions."""
    return [list(group) for _, group in groupby(rows, key=lambda row: row.get("labels"))]


def _by_minute(rows: Sequence[Mapping[str, Any]], name: str, scale: float) -> tuple[list[float], list[float]]:
    return [row["seconds"] / 60 for row in rows], [scale * row[name] for row in rows]
