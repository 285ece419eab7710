"""`regard train --telemetry`, and the data set of repeated random tokens."""

from pathlib import Path
from typing import Any

import torch

from regard.training import make_run_config, train
from regard.training.data.examples import IGNORED
from regard.training.data.repeats import RepeatExamples
from regard.training.tokenizer import SPECIAL
from regard.watching import read_telemetry


def test_a_run_writes_telemetry_and_learns_from_repeats(tmp_path: Path) -> None:
    sizes = {"d_model": 16, "heads": 2, "context": 32}
    config = make_run_config("language", ("repeats",), sizes=sizes, settings={"steps": 4, "batch": 2})
    rows: list[dict[str, Any]] = []
    result = train(config, tmp_path / "run", telemetry=2, report=rows.append)
    assert config.tokenizer == "words"
    assert result.run.tokenizer.encode("ba de")[0] == len(SPECIAL)
    measured = read_telemetry(tmp_path / "run" / "telemetry.jsonl")
    assert [(row["step"], row["module"]) for row in measured] == [
        (step, f"layers.{n}.attention") for step in (0, 2) for n in (0, 1)
    ]
    assert rows[-1]["split"] == "valid"


def test_only_repeated_tokens_are_predicted() -> None:
    examples = RepeatExamples(10, 64, 105)
    inputs, targets = examples.batch([3, 7], slice(None), ()).tensors
    assert inputs is not None
    assert targets is not None
    for row, expected in zip(inputs, targets, strict=True):
        unit = int((expected == IGNORED).sum()) + 1
        assert 4 <= unit <= 32
        assert len(row[:unit].unique()) == unit
        torch.testing.assert_close(expected[unit - 1 :], row[: len(row) - unit + 1])
    again = examples.batch([2, 7], slice(1, None), ()).tensors[0]
    assert again is not None
    assert torch.equal(again[0], inputs[1])
