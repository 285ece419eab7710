"""What a run measured, as JSON lines and, where asked, for TensorBoard."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.files import write_atomic

Metrics = dict[str, Any]


class MetricsFile:
    """Rows such as {"step": 100, "split": "train", "loss": 0.5}, in metrics.jsonl.

    Rows after `start` are removed: the run that wrote them did not get as far as its next checkpoint.
    """

    def __init__(self, folder: Path, start: int = 0, tensorboard: bool = False) -> None:
        self.file = folder / "metrics.jsonl"
        kept = [row for row in read_metrics(self.file) if row["step"] <= start]
        write_atomic(self.file, "".join(json.dumps(row) + "\n" for row in kept).encode())
        self.scalar = _tensorboard(folder / "tensorboard", start) if tensorboard else None

    def add(self, row: Metrics) -> None:
        """Write one row."""
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
        if self.scalar is not None:
            for name, value in row.items():
                if name not in ("step", "split"):
                    self.scalar(f"{name}/{row['split']}", value, row["step"])


def read_metrics(file: Path) -> list[Metrics]:
    """The rows of a file; a last line that was cut off by the end of its process is left out."""
    rows: list[Metrics] = []
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return rows


def _tensorboard(folder: Path, start: int) -> Callable[[str, float, int], None]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError("--tensorboard needs the package tensorboard: pip install 'regard[tensorboard]'") from None
    writer = SummaryWriter(str(folder), purge_step=start + 1, flush_secs=5)
    return writer.add_scalar
