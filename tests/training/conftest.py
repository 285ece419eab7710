"""A run of seconds: a few pairs, a tiny model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.training import RunConfig, make_run_config

SIZES = {"d_model": 16, "heads": 2, "layers": 1, "dropout": 0.1}
SETTINGS = {"steps": 12, "batch": 8, "evaluate_every": 4, "checkpoint_every": 3, "warmup": 4, "learning_rate": 1e-2}


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A file of 80 pairs: a number in digits, and the same digits in Chinese."""
    file = tmp_path / "pairs.tsv"
    lines = (f"{n}\t{''.join('零一二三四五六七八九'[int(d)] for d in str(n))}" for n in range(7, 7 + 80 * 13, 13))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def tiny(pairs: Path) -> Callable[..., RunConfig]:
    """A plan of a run that takes a second; with changes to its settings."""

    def plan(model: str = "transformer", sizes: dict[str, Any] | None = None, **settings: Any) -> RunConfig:
        usual = SIZES if model == "transformer" else {"d_model": 16, "layers": 1}
        return make_run_config(
            "translate", (str(pairs),), model=model, tokenizer="characters", sizes={**usual, **(sizes or {})},
            settings={**SETTINGS, **settings},
        )  # fmt: skip

    return plan
