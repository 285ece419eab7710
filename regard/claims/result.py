"""Result files: measured rows, settings and machine of a run. Verdicts are computed from the rows, not stored."""

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.claims.claim import SIZES, Claim, Conclusion, Row, Settings, Size
from regard.files import dataclass_from_json, explain_damage, json_checksum, read_json, write_atomic

FORMAT = 1
EXPLANATION = "a result file of a claim", "run the claim again"  # kind of file, and advice if it is damaged
SHIPPED = Path(__file__).parent / "results"  # results shown in docs/claims.md
FOLDER = Path("claims")  # default output folder of `regard claims run`
FIELDS = {"claim": str, "size": str, "settings": dict, "seeds": int, "wanted": int, "machine": dict, "command": str}


@dataclass(frozen=True)
class Part:
    """A finished part of a run.

    seed        seed of the part
    part        settings of the part
    seconds     how long it took
    rows        its measurements
    load        load average of the machine at its end, this process included; None where it is not known
    """

    seed: int
    part: Settings
    seconds: float
    rows: tuple[Row, ...]
    load: float | None = None


@dataclass(frozen=True)
class Result:
    """The content of a result file.

    claim, size         name of the claim, and size of the run: "tiny", "default" or "full"
    settings, seeds     settings of the run, and number of repetitions
    expected_parts      number of parts of the complete run, "wanted" in the file; an interrupted run has fewer
    machine             processor, versions and threads
    command             command that repeats the run
    parts               what was measured

    >>> result = find("mask", SHIPPED)
    >>> result.size, result.seeds, result.complete
    ('default', 10, True)
    """

    claim: str
    size: Size
    settings: Settings
    seeds: int
    expected_parts: int
    machine: Mapping[str, str | int]
    command: str
    parts: tuple[Part, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether all parts are finished."""
        return len(self.parts) == self.expected_parts

    @property
    def seconds(self) -> float:
        """Time that all parts took together."""
        return math.fsum(part.seconds for part in self.parts)

    @property
    def load(self) -> float | None:
        """Median load average of the parts; None if it is not known."""
        loads = sorted(part.load for part in self.parts if part.load is not None)
        return loads[len(loads) // 2] if loads else None

    @property
    def rows(self) -> list[Row]:
        """All rows, each with its seed and the settings of its part."""
        return [{**part.part, **row, "seed": part.seed} for part in self.parts for row in part.rows]

    def has(self, seed: int, part: Settings) -> bool:
        """Whether the part with this seed and these settings is finished."""
        return any(finished.seed == seed and finished.part == part for finished in self.parts)

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Write the file atomically and return its path."""
        content = {"format": FORMAT, **asdict(self)}
        parts = ",\n".join(f"  {_to_json(part)}" for part in content.pop("parts"))
        names = {"expected_parts": "wanted"}
        lines = [f" {json.dumps(names.get(name, name))}: {_to_json(value)}" for name, value in content.items()]
        text = "{\n" + ",\n".join(lines) + f',\n "parts": [\n{parts}\n ]'
        checksum = json_checksum(json.loads(text + "}"))  # of the numbers as written
        return write_atomic(file, f'{text},\n "checksum": "{checksum}"\n}}\n')


def read(file: str | os.PathLike[str]) -> Result:
    """Return the result in a file, after checking its format.

    >>> read(SHIPPED / "mask.json").claim
    'mask'
    """
    with explain_damage(file, *EXPLANATION):
        content = read_json(file, *EXPLANATION)
        _check(content.pop("format", None) == FORMAT, f"format {FORMAT}")
        parts = content.pop("parts", None)
        _check(isinstance(parts, list), "a list of parts")
        _check(content.keys() == FIELDS.keys(), f"the entries format, {', '.join(FIELDS)} and parts")
        for name, kind in FIELDS.items():
            value = content[name]
            _check(isinstance(value, kind) and not isinstance(value, bool), f"{name} of type {kind.__name__}")
        _check(content["size"] in SIZES, f"a size among {', '.join(SIZES)}")
        _check(content["machine"].keys() >= {"processor", "cores", "threads", "torch"}, "a description of the machine")
        for part in parts:
            complete = isinstance(part, dict) and {"load", *part} == Part.__dataclass_fields__.keys()
            _check(complete, "seed, part, seconds and rows in every part, optionally load")
            rows = part["rows"]
            _check(isinstance(rows, list) and all(isinstance(row, dict) for row in rows), "rows that are objects")
            values = [value for row in rows for value in row.values()]
            plain = all(
                value is None or (isinstance(value, str | int | float) and value != math.inf) for value in values
            )
            _check(plain, "rows of numbers, texts, booleans and null")
            _check(isinstance(part["seconds"], int | float) and part["seconds"] >= 0, "seconds of at least 0")
        return Result(
            expected_parts=content.pop("wanted"),
            parts=tuple(dataclass_from_json(Part, {**part, "rows": tuple(part["rows"])}) for part in parts),
            **content,
        )


def find(name: str, folder: str | os.PathLike[str] | None = None) -> Result | None:
    """Return the stored result of a claim, or None if there is none.

    name        name of the claim
    folder      folder to look in; by default ./claims, then the shipped results

    >>> find("mask", "no-such-folder") is None
    True
    """
    for place in [Path(folder)] if folder is not None else [FOLDER, SHIPPED]:
        if (file := place / f"{name}.json").exists():
            return read(file)
    return None


def stored_conclusion(
    claim: Claim, folder: str | os.PathLike[str] | None = None
) -> tuple[Conclusion | None, Result | None]:
    """Return the conclusion, None unless the stored result is complete, and the result, None if there is none."""
    result = find(claim.name, folder)
    with explain_damage(f"{claim.name}.json", "a result of this version of the claim", "run the claim again"):
        return (claim.judge(result.rows) if result is not None and result.complete else None), result


def _check(condition: bool, expected: str) -> None:
    if not condition:
        raise ValueError(f"expected {expected} in the file")


def _to_json(value: Any) -> str:
    return json.dumps(finite(value, lambda number: float(f"{number:.6g}")), ensure_ascii=False, allow_nan=False)


def finite(value: Any, convert: Callable[[float], float]) -> Any:
    """Return the value with `convert` applied to floats, and None for NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return convert(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: finite(item, convert) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item, convert) for item in value]
    return value
