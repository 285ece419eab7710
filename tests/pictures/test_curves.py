"""Curves of a run: the numbers of its metrics."""

from pathlib import Path

import numpy as np
import pytest

from regard.pictures import board_training_curves, training_curves

ROWS = [
    {"step": 10, "split": "train", "loss": 4.0, "learning_rate": 1e-3},
    {"step": 20, "split": "train", "loss": 2.0, "learning_rate": 2e-3},
    {"step": 20, "split": "valid", "loss": 2.5},
    {"step": 30, "split": "train", "loss": 1.0, "learning_rate": 1e-3},
    {"step": 40, "split": "valid", "loss": 1.5},
]


def test_lines_show_the_rows(tmp_path: Path) -> None:
    picture = training_curves(ROWS, title="a run")
    losses, rates = picture.figure.axes
    lines = {line.get_label(): np.asarray(line.get_xydata()).tolist() for line in losses.lines}
    assert lines == {"train": [[10, 4.0], [20, 2.0], [30, 1.0]], "valid": [[20, 2.5], [40, 1.5]]}
    assert np.asarray(rates.lines[0].get_ydata()).tolist() == [1e-3, 2e-3, 1e-3]
    assert [text.get_text() for text in losses.texts] == ["1.5"]
    assert losses.get_yscale() == "linear"
    assert picture.save(tmp_path / "curves.png").stat().st_size > 1000


def test_losses_of_many_sizes_are_drawn_on_a_logarithmic_scale(tmp_path: Path) -> None:
    rows = [{"step": n, "split": "train", "loss": 10.0**-n} for n in range(4)]
    picture = training_curves(rows)
    (losses,) = picture.figure.axes  # no learning rate, no panel for it
    assert losses.get_yscale() == "log"
    assert "$" not in picture.save(tmp_path / "curves.svg").read_text(encoding="utf-8")


def test_empty_metrics_are_rejected() -> None:
    with pytest.raises(ValueError, match="there is nothing to draw"):
        training_curves([])


def test_evaluations_on_other_positions_are_a_separate_line() -> None:
    rows = [
        {"split": "grade", "seconds": 60, "error": 0.02, "labels": 1_000_000},
        {"split": "grade", "seconds": 120, "error": 0.01, "labels": 1_000_000},
        {"split": "grade", "seconds": 180, "error": 0.04, "labels": 2_500_000},
        {"split": "grade", "seconds": 240, "error": 0.03, "labels": 2_500_000},
    ]
    (errors,) = board_training_curves(rows).figure.axes
    lines = [np.asarray(line.get_xydata()).tolist() for line in errors.lines if line.get_linestyle() == "-"]
    assert np.allclose(lines, [[[1, 2], [2, 1]], [[3, 4], [4, 3]]])
    # The smallest error of the last ones is named: those before were of other positions.
    assert [text.get_text() for text in errors.texts] == ["2.5 M labels", "3.00 %"]
    assert [text.get_text() for text in errors.get_legend().get_texts()] == ["mean"]  # type: ignore[union-attr]
