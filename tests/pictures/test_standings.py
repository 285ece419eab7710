"""The crosstable of arena results."""

from pathlib import Path

import numpy as np
import pytest

from regard.pictures import crosstable

WINS = [[0, 6, 10], [2, 0, 7], [0, 3, 0]]
DRAWS = [[0, 2, 0], [2, 0, 0], [0, 0, 0]]


def test_the_table_shows_scores_and_ratings() -> None:
    picture = crosstable(["a", "b", "c"], WINS, DRAWS, [10.0, 50.0, -60.0], [5.0, 6.0, 7.0], title="Arena")
    table, strengths = picture.figure.axes
    assert [tick.get_text() for tick in table.get_yticklabels()] == ["b", "a", "c"]  # strongest first
    share = table.images[0].get_array()
    assert np.ma.filled(share, np.nan)[0, 1] == pytest.approx(0.3)
    assert "30 %\n2–2–6" in [text.get_text() for text in table.texts]
    assert len(table.texts) == 6  # nobody meets oneself
    assert [text.get_text() for text in strengths.texts] == ["+50", "+10", "−60"]


def test_a_table_without_ratings_can_be_saved(tmp_path: Path) -> None:
    names = ["mcts:1000", "a/very/long/path/to/an/agent/main.py", "猫"]
    for theme in ("light", "dark"):
        picture = crosstable(names, WINS, np.zeros((3, 3)), theme=theme)
        assert picture.save(tmp_path / f"{theme}.svg").stat().st_size > 1000
    assert len(picture.figure.axes) == 1


def test_pairs_without_games_are_blank() -> None:
    assert len(crosstable(["a", "b"], np.zeros((2, 2)), np.zeros((2, 2))).figure.axes[0].texts) == 0


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"must be \(2, 2\), got \(3, 3\)"):
        crosstable(["a", "b"], WINS, DRAWS)
