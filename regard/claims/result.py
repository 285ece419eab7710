"""The file of a result: what was measured, with which settings, on what. The verdict is not in it (claim.py)."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from regard.claims.claim import SIZES, Row, Settings, Size
from regard.files import write_atomic

FORMAT = 1
SHIPPED = Path(__file__).parent / "results"  # those of docs/claims.md
FOLDER = Path("claims")  # where `regard claims run` writes unless told otherwise


@dataclass(frozen=True)
class Part:
    """A piece that is done: the seed, the piece's settings, how long it took, and what was found.

    load    how many processes wanted the machine's cores meanwhile (its load average), this one among them
    """

    seed: int
    part: Settings
    seconds: float
    rows: tuple[Row, ...]
    load: float | None = None


@dataclass(frozen=True)
class Result:
    """What a file holds. `wanted` is the number of parts of a whole result: fewer, and it was stopped."""

    claim: str
    size: Size
    settings: Settings
    seeds: int
    wanted: int
    machine: Mapping[str, str | int]
    command: str
    parts: tuple[Part, ...] = field(default=())

    @property
    def whole(self) -> bool:
        """Whether every part is there."""
        return len(self.parts) == self.wanted

    @property
    def seconds(self) -> float:
        """How long all parts took."""
        return math.fsum(part.seconds for part in self.parts)

    @property
    def load(self) -> float | None:
        """The load average at the median part; None where the system has none."""
        loads = sorted(part.load for part in self.parts if part.load is not None)
        return loads[len(loads) // 2] if loads else None

    @property
    def rows(self) -> list[Row]:
        """All rows, each with its seed and the settings of its part."""
        return [{**part.part, **row, "seed": part.seed} for part in self.parts for row in part.rows]

    def has(self, seed: int, part: Settings) -> bool:
        """Whether this piece is done."""
        return any(done.seed == seed and done.part == part for done in self.parts)

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Write it, whole or not at all."""
        content = {"format": FORMAT, **asdict(self)}
        lines = [f" {json.dumps(key)}: {_json(value)}" for key, value in content.items() if key != "parts"]
        parts = ",\n".join(f"  {_json(part)}" for part in content["parts"])
        return write_atomic(file, "{\n" + ",\n".join(lines) + f',\n "parts": [\n{parts}\n ]\n}}\n')


def read(file: str | os.PathLike[str]) -> Result:
    """Read a result and check it against the format, or say what is wrong with the file."""
    path = Path(file)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no result of a claim: {error}") from None
    _check(isinstance(found, dict), path, "the file holds one object")
    _check(found.pop("format", None) == FORMAT, path, f"format is {FORMAT}")
    wanted = {"claim": str, "size": str, "settings": dict, "seeds": int, "wanted": int, "machine": dict}
    wanted |= {"command": str, "parts": list}
    _check(found.keys() == wanted.keys(), path, f"its entries are format, {', '.join(wanted)}")
    for name, kind in wanted.items():
        _check(
            isinstance(found[name], kind) and not isinstance(found[name], bool), path, f"{name} is a {kind.__name__}"
        )
    _check(found["size"] in SIZES, path, f"size is one of {', '.join(SIZES)}")
    for part in found["parts"]:
        whole = isinstance(part, dict) and {"load", *part} == Part.__dataclass_fields__.keys()
        _check(whole, path, "a part has seed, part, seconds, rows and perhaps load")
        rows: Any = part["rows"]
        _check(
            isinstance(rows, list) and all(isinstance(row, dict) for row in rows), path, "rows are a list of objects"
        )
        _check(all(_plain(value) for row in rows for value in row.values()), path, "a row has plain values")
    parts = tuple(Part(**{**part, "rows": tuple(part["rows"])}) for part in found.pop("parts"))
    return Result(**found, parts=parts)


def find(name: str, folder: str | os.PathLike[str] | None = None) -> Result | None:
    """The stored result of a claim: of this folder; of ./claims, or else the shipped one, if no folder is given."""
    for place in [Path(folder)] if folder is not None else [FOLDER, SHIPPED]:
        if (file := place / f"{name}.json").exists():
            return read(file)
    return None


def _check(true: bool, path: Path, rule: str) -> None:
    if not true:
        raise ValueError(f"{path} is no result of a claim: it should be that {rule}; run the claim again")


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _json(value: Any) -> str:
    return json.dumps(_short(value), ensure_ascii=False, allow_nan=False)


def _short(value: Any) -> Any:
    """Numbers with six figures, which is more than any of them has; what is no number is None."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _short(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    return value
