"""The tasks of one labelling command: which are finished, and which are in shards.

Every finished task is appended to a log in the folder of the labels at once. Every minute, the finished tasks up to the
first unfinished one are written as a shard, in the order of their numbers; so the shards do not depend on the number of
workers or on the order in which they finish. The log is removed at the end. If the command is killed, the same command
finds the log and continues with it.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from regard.connectx.data.label_storage import Records, create_shard, record_type, shard_file, shards
from regard.files import read_array
from regard.parallel import ResultLog


class LabelRun:
    """The finished tasks of a command that labels `positions` positions; None stands for any number."""

    def __init__(self, folder: Path, log: ResultLog, columns: int) -> None:
        self.folder, self._log, self.positions = folder, log, log.header["positions"]
        self.count = 0  # positions of the finished tasks up to the first unfinished one
        self._next: int = log.header["first"]  # the first unfinished task
        self._lengths: dict[int, int] = {}  # positions of each finished task
        self._unsaved: dict[int, Records] = {}
        for key, payload in log.entries:
            if isinstance(key, int):
                self._note(key, np.frombuffer(payload, record_type(columns)))
            elif self._is_written(key[0], tasks := key[1]):
                self._unsaved = {number: part for number, part in self._unsaved.items() if number not in tasks}
        self.restored = frozenset(self._lengths)

    @classmethod
    @contextmanager
    def open(cls, folder: Path, options: Any, positions: int | None) -> Iterator["LabelRun"]:
        """Continue the interrupted command with these options, or begin a new one; write shards at the end."""
        description = json.loads(json.dumps(asdict(options)))
        key = hashlib.sha256(json.dumps(description).encode()).hexdigest()[:12]
        while True:
            first = int(shards(folder)[-1].stem) + 1 if shards(folder) else 0
            header = {"options": description, "positions": positions, "first": first}
            with ResultLog.open(folder / f".tasks-{key}.log", header) as log:
                run = cls(folder, log, options.size[1])
                if log.header["positions"] != positions:  # another number was asked for: end the interrupted command
                    run.save(everything=True)
                    log.remove()
                    continue
                try:
                    yield run
                finally:
                    run.save(everything=positions is None)
                    if positions is None or run.is_complete():
                        log.remove()
                return

    def is_complete(self) -> bool:
        """Whether the positions are labelled that the command asks for."""
        return self.positions is not None and self.count >= self.positions

    @property
    def total(self) -> int:
        """Number of positions of all finished tasks."""
        return self.count if self.is_complete() else sum(self._lengths.values())

    def remaining(self) -> Iterator[int]:
        """Yield the numbers of the tasks that were not finished when the command began."""
        return (number for number in itertools.count(self._log.header["first"]) if number not in self.restored)

    def add(self, number: int, records: Records) -> None:
        """Store the records of a finished task."""
        self._log.add(number, records.tobytes())
        self._note(number, records)

    def _note(self, number: int, records: Records) -> None:
        self._lengths[number], self._unsaved[number] = len(records), records
        while self._next in self._lengths and not self.is_complete():
            self.count += self._lengths[self._next]
            self._next += 1

    def save(self, *, everything: bool = False) -> None:
        """Write the finished tasks up to the first unfinished one, or all finished tasks, as a shard."""
        tasks = sorted(number for number in self._unsaved if everything or number < self._next)
        records = self._records(tasks)
        if len(records):
            number = tasks[-1]
            self._log.add([number, tasks])  # before the shard: a command that is killed here looks whether it exists
            while not create_shard(self.folder, number, records):
                number += 1
                self._log.add([number, tasks])
        for task in tasks:
            del self._unsaved[task]

    def _records(self, tasks: list[int]) -> Records:
        return np.concatenate([self._unsaved[task] for task in tasks]) if tasks else np.zeros(0, record_type(1))

    def _is_written(self, number: int, tasks: list[int]) -> bool:
        """Return whether the shard with this number has the records of these tasks."""
        file = shard_file(self.folder, number)
        return file.exists() and read_array(file).tobytes() == self._records(tasks).tobytes()
