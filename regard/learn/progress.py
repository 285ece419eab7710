"""What a learner has done, in one readable JSON file under the user's data folder.

    {"version": 1, "exercises": {"01-softmax": {"passed": "2026-03-01", "attempts": 3, "hints": 1, …}}}

The file is read before and written whole after every change, by one writer at a time, so that the command line and
the page can share it.
Parts of it that this module does not know are left as they are: cards and drills keep theirs beside.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any

from regard.files import lock_folder, write_atomic
from regard.learn.exercise import Exercise, exercises
from regard.learn.grader.verdict import Verdict
from regard.learn.state import VERSION, home


@dataclass
class Record:
    """One exercise: the day it was passed, runs and hints taken, what was wrong last, and in which file.

    `code` is what was written on the page, which has no file.
    """

    passed: str | None = None
    attempts: int = 0
    hints: int = 0
    last: str | None = None
    file: str | None = None
    code: str | None = None


@dataclass(frozen=True)
class Progress:
    """The state in a file, or in `learn.json` under `$REGARD_HOME` or the user's data folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     progress = Progress(Path(folder) / "learn.json")
    ...     progress.took_hint(exercises()[0])
    ...     progress.record(exercises()[0]).hints
    1
    """

    path: Path

    @classmethod
    def of_user(cls) -> "Progress":
        """That of whoever runs this."""
        return cls(home() / "learn.json")

    def record(self, exercise: Exercise) -> Record:
        """What is known of an exercise."""
        known = self.read()["exercises"].get(exercise.name, {})
        return Record(**{field.name: known[field.name] for field in fields(Record) if field.name in known})

    def passed(self, exercise: Exercise) -> bool:
        """Whether it was passed, ever."""
        return self.record(exercise).passed is not None

    def next(self) -> Exercise | None:
        """The first exercise that is not passed, None when all are."""
        known = self.read()["exercises"]
        return next((exercise for exercise in exercises() if not known.get(exercise.name, {}).get("passed")), None)

    def note(self, exercise: Exercise, verdict: Verdict, file: Path | None = None) -> None:
        """Write down a run. What was passed stays passed."""

        def change(record: Record) -> None:
            record.attempts += 1
            record.last = None if verdict.passed else verdict.mistake or verdict.kind
            record.file = str(file.resolve()) if file else record.file
            if verdict.passed and not record.passed:
                record.passed = date.today().isoformat()

        self._change(exercise, change)

    def took_hint(self, exercise: Exercise) -> None:
        """Write down that one more hint was shown."""

        def change(record: Record) -> None:
            record.hints += 1

        self._change(exercise, change)

    def keep_code(self, exercise: Exercise, code: str) -> None:
        """Keep what was written so far."""

        def change(record: Record) -> None:
            record.code = code

        self._change(exercise, change)

    def forget(self, exercise: Exercise) -> None:
        """Forget an exercise."""
        with self._alone():
            state = self.read()
            state["exercises"].pop(exercise.name, None)
            self._write(state)

    def read(self) -> dict[str, Any]:
        """The whole state; ValueError if the file is not ours or damaged. It is never overwritten then."""
        if not self.path.exists():
            return {"version": VERSION, "exercises": {}}
        try:
            state = json.loads(self.path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{self.path} is damaged ({error}); mend it, or move it away to start anew") from error
        if not isinstance(state, dict) or state.get("version") != VERSION:
            raise ValueError(f"{self.path} is not a progress file of version {VERSION}; move it away to start anew")
        state.setdefault("exercises", {})
        return state

    def _change(self, exercise: Exercise, change: Callable[[Record], None]) -> None:
        with self._alone():
            record = self.record(exercise)
            change(record)
            known = {name: value for name, value in asdict(record).items() if name != "code" or value is not None}
            state = self.read()
            state["exercises"][exercise.name] = {**state["exercises"].get(exercise.name, {}), **known}
            self._write(state)

    def _alone(self) -> AbstractContextManager[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return lock_folder(self.path.parent)

    def _write(self, state: dict[str, Any]) -> None:
        write_atomic(self.path, json.dumps(state, indent=1, ensure_ascii=False) + "\n")
