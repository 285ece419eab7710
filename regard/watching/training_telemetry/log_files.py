"""Files of telemetry: JSON lines, and TensorBoard."""

import json
import os
from pathlib import Path
from typing import Any

from regard.extras import needs
from regard.files import explain_damage, json_line, verify_json, write_atomic
from regard.watching.training_telemetry.alarms import Alarm
from regard.watching.training_telemetry.measurements import Measurement

Row = dict[str, Any]


class JsonLines:
    """A file with one row for each measurement and alarm, with its checksum.

    Rows after the step from which a run resumes are removed.
    """

    def __init__(self, file: str | os.PathLike[str], step: int) -> None:
        self.file = Path(file)
        rows = [row for row in read_telemetry(self.file) if row["step"] < step] if self.file.exists() and step else []
        write_atomic(self.file, "".join(json_line(row) for row in rows))

    def add(self, row: Row) -> None:
        """Append one row."""
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(json_line(row))


class TensorBoard:
    """A folder for TensorBoard, with a curve for each number and head."""

    def __init__(self, folder: str | os.PathLike[str], step: int) -> None:
        with needs("tensorboard", "telemetry for TensorBoard"):
            from torch.utils.tensorboard import SummaryWriter
        self.writer = SummaryWriter(str(folder), purge_step=step or None, flush_secs=5)

    def add(self, row: Measurement | Alarm) -> None:
        """Add the numbers of a measurement, or the text of an alarm."""
        if isinstance(row, Alarm):
            self.writer.add_text("attention alarms", str(row), row.step)
            return
        for name in ("entropy", "largest", "sink", "dead"):
            for head, value in enumerate(getattr(row, name) or ()):
                if value is not None:
                    self.writer.add_scalar(f"attention {name}/{row.module}.{head}", float(value), row.step)

    def close(self) -> None:
        """Write what is left."""
        self.writer.close()


def read_telemetry(file: str | os.PathLike[str]) -> list[Row]:
    """Return the rows of a file that `regard.telemetry` wrote; a last line that was cut off is skipped.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "telemetry.jsonl"
    ...     _ = file.write_text('{"step": 0, "module": "attn"}\\n{"step"')
    ...     read_telemetry(file)
    [{'step': 0, 'module': 'attn'}]
    """
    explanation = file, "a file of regard.telemetry", "remove it, or restore a copy"
    with explain_damage(*explanation):
        lines = Path(file).read_bytes().split(b"\n")[:-1]
        rows = [verify_json(json.loads(line)) for line in lines]
        if not all(type(row.get("step")) is int for row in rows):
            raise ValueError("expected an object with step in every line")
    return rows
