"""Runs of claims: parts are stored and resumed, and result files are checked."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.claims import Claim, Conclusion, claim_named, read, run
from regard.claims.claim import Row
from regard.claims.result import Part, Result
from regard.languages import bilingual


def small_claim(measure: Any) -> Claim:
    """Return a claim with three parts and two seeds."""
    size = {"seeds": 2, "numbers": [1, 2, 3]}
    return replace(
        claim_named("mask"),
        name="small",
        sizes={"tiny": size, "default": size, "full": {**size, "numbers": [1, 2, 3, 4]}},
        parts=lambda settings: [{"number": number} for number in settings["numbers"]],
        measure=measure,
        judge=lambda rows: Conclusion("holds", bilingual("yes", "是")),
    )


def test_interrupted_run_is_resumed(tmp_path: Path) -> None:
    measured: list[tuple[int, int]] = []

    def measure(settings: Any, part: Any, seed: int) -> list[Row]:
        if len(measured) == 4:
            raise KeyboardInterrupt
        measured.append((seed, part["number"]))
        return [{"x": float(torch.rand(()))}]

    with pytest.raises(KeyboardInterrupt):
        run(small_claim(measure), folder=tmp_path)
    interrupted = read(tmp_path / "small.json")
    assert (len(interrupted.parts), interrupted.expected_parts, interrupted.complete) == (4, 6, False)
    measured.pop()
    measured.clear()
    complete = run(small_claim(measure), folder=tmp_path)
    assert measured == [(1, 2), (1, 3)]
    assert complete.parts[:4] == interrupted.parts
    assert complete.complete
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.json"]


def test_more_seeds_keep_the_stored_ones(tmp_path: Path) -> None:
    def measure(settings: Any, part: Any, seed: int) -> list[Row]:
        return [{"x": float(torch.rand(()))}]

    two = run(small_claim(measure), folder=tmp_path)
    three = run(small_claim(measure), folder=tmp_path, seeds=3)
    assert three.parts[:6] == two.parts
    assert (len(three.parts), three.seeds, three.command) == (9, 3, "regard claims run small --seeds 3")


def test_result_of_another_size_is_not_overwritten(tmp_path: Path) -> None:
    one = small_claim(lambda *_: [{"x": 1.0}])
    run(one, "full", folder=tmp_path)
    with pytest.raises(ValueError, match=r"size full, 8 parts.*--again"):
        run(one, folder=tmp_path)
    assert read(tmp_path / "small.json").size == "full"
    assert run(one, folder=tmp_path, again=True).size == "default"


def test_malformed_result_files_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    machine = {"processor": "x", "cores": 1, "threads": 1, "torch": "2"}
    result = Result("x", "tiny", {"n": (1, 2)}, 1, 1, machine, "regard", (Part(0, {}, 1.0, ({"a": None},)),))
    result.save(file)
    good = json.loads(file.read_text())
    file.write_text(file.read_text().replace('"seconds": 1.0', '"seconds": 2.0'))
    with pytest.raises(ValueError, match="the checksum does not match"):
        read(file)
    result.save(file)
    del good["checksum"]  # as in files of earlier versions
    assert read(file).rows == [{"a": None, "seed": 0}]
    bad: list[tuple[Any, str]] = [
        ([], "expected a JSON object"),
        ({**good, "format": 2}, "expected format 1"),
        ({**good, "more": 1}, "expected the entries"),
        ({**good, "seeds": "1"}, "seeds of type int"),
        ({**good, "size": "huge"}, "a size among"),
        ({**good, "machine": {}}, "a description of the machine"),
        ({**good, "parts": [{}]}, "seed, part, seconds and rows"),
        ({**good, "parts": [{**good["parts"][0], "rows": [{"a": [1]}]}]}, "rows of numbers, texts"),
        ({**good, "parts": [{**good["parts"][0], "rows": [{"a": math.inf}]}]}, "rows of numbers, texts"),
        ({**good, "parts": [{**good["parts"][0], "seconds": -1.0}]}, "seconds of at least 0"),
    ]
    for content, message in bad:
        file.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=message):
            read(file)
    file.write_text("{")
    with pytest.raises(ValueError, match="not a result file of a claim"):
        read(file)


def test_nan_is_stored_as_none(tmp_path: Path) -> None:
    one = small_claim(lambda *_: [{"x": float("nan"), "y": torch.tensor(2)}])
    row = run(one, folder=tmp_path).rows[0]
    assert row["x"] is None
    assert row["y"] == 2
