"""Metrics of a run, as JSON lines and optionally for TensorBoard."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.files import write_atomic

Metrics = dict[str, Any]


class MetricsFile:
    """The file metrics.jsonl of a run, with rows such as {"step": 100, "split": "train", "loss": 0.5}.

    Rows of steps after `start` are removed: they were written after the checkpoint from which the run resumes.
    """

    def __init__(self, folder: Path, start: int = 0, tensorboard: bool = False) -> None:
        self.file = folder / "metrics.jsonl"
        rows = [row for row in read_metrics(self.file) if row["step"] <= start]
        write_atomic(self.file, "".join(json.dumps(row) + "\n" for row in rows))
        self.add_scalar = _tensorboard(folder / "tensorboard", start) if tensorboard else None

    def add(self, row: Metrics) -> None:
        """Append one row."""
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
        if self.add_scalar is not None:
            for name, value in row.items():
                if name not in ("step", "split"):
                    self.add_scalar(f"{name}/{row['split']}", value, row["step"])


def read_metrics(file: Path) -> list[Metrics]:
    """Return the rows of a metrics file; invalid lines, such as a last line that was cut off, are skipped.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "metrics.jsonl"
    ...     _ = file.write_text('{"step": 10, "split": "train", "loss": 0.5}\\n{"step": 2')
    ...     read_metrics(file)
    [{'step': 10, 'split': 'train', 'loss': 0.5}]
    """
    rows: list[Metrics] = []
    if file.exists():
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, RecursionError):
                rows.append(json.loads(line))
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("step"), int)]


def _tensorboard(folder: Path, start: int) -> Callable[[str, float, int], None]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError("--tensorboard needs the package tensorboard: pip install 'regard[tensorboard]'") from None
    writer = SummaryWriter(str(folder), purge_step=start + 1, flush_secs=5)
    return writer.add_scalar
