"""Fixtures: a small file of pairs and the configuration of a run that takes a second."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.training import make_run_config
from regard.training.run_config import RunConfig

SIZES = {"d_model": 16, "heads": 2, "layers": 1, "dropout": 0.1}
SETTINGS = {"steps": 12, "batch": 8, "evaluate_every": 4, "checkpoint_every": 3, "warmup": 4, "learning_rate": 1e-2}


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Write a file of 80 pairs: a number and its digits in Chinese."""
    file = tmp_path / "pairs.tsv"
    lines = (f"{n}\t{''.join('零一二三四五六七八九'[int(d)] for d in str(n))}" for n in range(7, 7 + 80 * 13, 13))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def tiny(pairs: Path) -> Callable[..., RunConfig]:
    """Return a function that makes the configuration of a short run, with changed settings."""

    def make(model: str = "transformer", sizes: dict[str, Any] | None = None, **settings: Any) -> RunConfig:
        defaults = SIZES if model == "transformer" else {"d_model": 16, "layers": 1}
        return make_run_config(
            "translate", (str(pairs),), model=model, tokenizer="characters", sizes={**defaults, **(sizes or {})},
            settings={**SETTINGS, **settings},
        )  # fmt: skip

    return make
