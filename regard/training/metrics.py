"""Metrics of a run, as JSON lines and optionally for TensorBoard."""

import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from regard.extras import needs
from regard.files import explain_damage, json_line, verify_json, write_atomic

Metrics = dict[str, Any]
EXPLANATION = "the metrics of a run", "restore a copy, or remove it to continue without the earlier metrics"


class SavedProgress(Protocol):
    """The part of a checkpoint's state that describes metrics.jsonl."""

    step: int
    metrics_bytes: int
    metrics_checksum: str


class MetricsFile:
    """The file metrics.jsonl of a run, with rows such as {"step": 100, "split": "train", "loss": 0.5}.

    Each row has a checksum. Rows that were written after the checkpoint from which the run resumes are removed; the
    others must be those that were there when the checkpoint was written.
    """

    def __init__(self, folder: Path, saved: SavedProgress, tensorboard: bool = False) -> None:
        self.file = folder / "metrics.jsonl"
        if self.file.exists() and saved.metrics_checksum:
            with explain_damage(self.file, *EXPLANATION):
                content = self.file.read_bytes()[: saved.metrics_bytes]
                if _checksum(content) != saved.metrics_checksum:
                    raise ValueError("it differs from the one at the last checkpoint")
        else:
            rows = [row for row in read_metrics(self.file) if row["step"] <= saved.step]
            content = "".join(json_line(row) for row in rows).encode()
        write_atomic(self.file, content)
        self.add_scalar = _tensorboard(folder / "tensorboard", saved.step) if tensorboard else None

    def add(self, row: Metrics) -> None:
        """Append one row."""
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(json_line(row))
        if self.add_scalar is not None:
            for name, value in row.items():
                if name not in ("step", "split"):
                    self.add_scalar(f"{name}/{row['split']}", value, row["step"])


def read_metrics(file: Path) -> list[Metrics]:
    """Return the rows of a metrics file; a last line that was cut off is skipped, other damage is an error.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "metrics.jsonl"
    ...     _ = file.write_text('{"step": 10, "split": "train", "loss": 0.5}\\n{"step": 2')
    ...     read_metrics(file)
    [{'step': 10, 'split': 'train', 'loss': 0.5}]
    """
    rows: list[Metrics] = []
    with explain_damage(file, *EXPLANATION):
        lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
        for number, line in enumerate(lines, 1):
            with explain_damage(f"{file}, line {number},", *EXPLANATION):
                rows.append(_checked_row(verify_json(json.loads(line))))
    return rows


def metrics_checksum(folder: Path) -> tuple[int, str]:
    """Return the length and the checksum of the metrics of a run, after flushing them to the disk."""
    file = folder / "metrics.jsonl"
    if not file.exists():
        return 0, ""
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())
        content = stream.read()
    return len(content), _checksum(content)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _checked_row(row: Any) -> Metrics:
    if not isinstance(row, dict) or not isinstance(row.get("split"), str) or type(row.get("step")) is not int:
        raise ValueError("expected an object with step and split")
    if row["step"] < 0 or any(isinstance(value, float) and not math.isfinite(value) for value in row.values()):
        raise ValueError("expected finite numbers")
    return row


def _tensorboard(folder: Path, start: int) -> Callable[[str, float, int], None]:
    with needs("tensorboard", "--tensorboard"):
        from torch.utils.tensorboard import SummaryWriter
    writer = SummaryWriter(str(folder), purge_step=start + 1, flush_secs=5)
    return writer.add_scalar
