"""Append-only file of finished tasks, so that nothing that is finished is lost, even by kill -9.

The first line is a JSON object that describes the work. Each result is a line of JSON with its key, its length and its
checksum, followed by its bytes. A result that was cut off at the end of the file is removed when the file is opened.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.files import explain_damage, lock_run, parse_json


class ResultLog:
    """The results in a file; one program at a time may write it.

    file        the file
    header      what describes the work, as JSON values
    entries     key and content of each result that the file had when it was opened
    handle      descriptor of the open file

    `ResultLog.open` returns one.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with ResultLog.open(Path(folder) / "log", {"seed": 1}) as log:
    ...         log.add(7, b"result")
    ...     with ResultLog.open(Path(folder) / "log", {"seed": 2}) as log:
    ...         log.header, log.entries
    ({'seed': 1}, [(7, b'result')])
    """

    def __init__(self, file: Path, header: dict[str, Any], entries: list[tuple[Any, bytes]], handle: int) -> None:
        self.file, self.header, self.entries, self._handle = file, header, entries, handle

    @classmethod
    @contextmanager
    def open(cls, file: Path, header: dict[str, Any]) -> Iterator["ResultLog"]:
        """Open the file, or create it with this header, and hold its lock."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with lock_run(file.parent, f"{file.name}.lock"):
            content = file.read_bytes() if file.exists() else b""
            end = content.find(b"\n") + 1
            entries: list[tuple[Any, bytes]] = []
            with explain_damage(file, "a file of results", "remove it"):
                stored = parse_json(content[:end]) if end else header
                while (entry := _read_entry(content, end)) is not None:
                    key, payload, end = entry
                    entries.append((key, payload))
            handle = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            try:
                if not end:
                    end = os.write(handle, json.dumps(header).encode() + b"\n")
                os.ftruncate(handle, end)
                os.lseek(handle, end, os.SEEK_SET)
                yield cls(file, stored, entries, handle)
            finally:
                os.close(handle)

    def add(self, key: Any, payload: bytes = b"") -> None:
        """Append a result; the key is a JSON value."""
        head = {"key": key, "bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
        data = json.dumps(head).encode() + b"\n" + payload + b"\n"
        while data:
            data = data[os.write(self._handle, data) :]

    def remove(self) -> None:
        """Remove the file when the work is finished."""
        self.file.unlink(missing_ok=True)


def _read_entry(content: bytes, start: int) -> tuple[Any, bytes, int] | None:
    """Return key, payload and end of the entry that begins here; None if none is complete."""
    middle = content.find(b"\n", start) + 1
    if not start or not middle:
        return None
    head = parse_json(content[start:middle])
    end = middle + head["bytes"] + 1
    payload = content[middle : end - 1]
    if len(content) < end:
        return None
    if hashlib.sha256(payload).hexdigest() != head["sha256"]:
        raise ValueError(f"the result {head['key']!r} does not match its checksum")
    return head["key"], payload, end
