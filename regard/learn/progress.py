"""A learner's progress, in one readable JSON file.

    {"version": 1, "exercises": {…}, "cards": {…}, "drills": {…}, "flow": {…}, "path": {…}, "settings": {…}}

Each section belongs to one part of the course and maps names to entries; "flow" holds the diagrams, "path" the stages
of the learning path that only the page can record. The file is `learn.json` in the folder `REGARD_HOME`, or in the
user's data folder. Sections and entries that this version does not know are kept.

The command line and the page may use the file at the same time. Every write locks the folder, reads the file again,
applies only the entries changed in this process, and replaces the file atomically. A file that cannot be read is
renamed, never overwritten. The file ends with a checksum; if it does not match, the learner is told, since the file may
be edited by hand.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import platformdirs

from regard.files import json_checksum, lock_folder, parse_json, with_checksum, write_atomic
from regard.learn.diagram import DIAGRAMS
from regard.learn.drills.drill import Drill, StepResult, all_passed
from regard.learn.exercise import Exercise, exercises
from regard.learn.grader.verdict import Verdict

VERSION = 1
COURSE_SECTIONS = ("exercises", "cards", "drills", "flow", "path")  # the sections that `Progress.clear` can empty
COUNTS = ("attempts", "hints", "level", "tries", "reviews")  # fields of entries that must be whole numbers
SECTIONS = (*COURSE_SECTIONS, "settings")
RECORDED_STAGES = ("intuition", "formula", "break")  # stages of the learning path that `Progress.record_stage` saves

Section = dict[str, Any]


class UnreadableProgress(ValueError):
    """The file does not contain a learner's progress."""


def data_folder() -> Path:
    """Return the folder of the course's files: `REGARD_HOME`, or the user's data folder."""
    folder = os.environ.get("REGARD_HOME")
    return Path(folder).expanduser() if folder else platformdirs.user_data_path("regard", appauthor=False)


@dataclass(frozen=True)
class ExerciseRecord:
    """Progress in one exercise."""

    passed: str | None = None  # date of the first passing run
    attempts: int = 0
    hints: int = 0  # number of hints shown
    last: str | None = None  # mistake or kind of failure of the last run; None if it passed
    file: str | None = None  # path of the file graded last
    code: str | None = None  # code typed into the page, which has no file


@dataclass
class Progress:
    """Progress of one learner, by section.

    file                        file of the progress
    exercises, cards, drills    what the learner did in each part of the course
    flow, path                  the same for the diagrams and the learning path
    settings                    options that the learner chose, such as the language
    unknown_sections            sections of the file that a newer version wrote; they are kept
    notice                      what to tell the learner about a file that could not be read, or None

    The sections are plain dictionaries: change them, then call `save`. The `record_…` methods save at once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     progress = Progress.load(Path(folder) / "learn.json")
    ...     progress.settings["language"] = "zh"
    ...     _ = progress.save()
    ...     progress.record_hint(exercises()[0])
    ...     stored = Progress.load(progress.file)
    >>> stored.settings, stored.exercise_record(exercises()[0]).hints
    ({'language': 'zh'}, 1)
    """

    file: Path
    exercises: Section = field(default_factory=dict)
    cards: Section = field(default_factory=dict)
    drills: Section = field(default_factory=dict)
    flow: Section = field(default_factory=dict)
    path: Section = field(default_factory=dict)
    settings: Section = field(default_factory=dict)
    unknown_sections: dict[str, Any] = field(default_factory=dict)
    notice: str | None = None
    _saved: dict[str, Section] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, file: str | os.PathLike[str] | None = None) -> "Progress":
        """Read the file, by default the user's `learn.json`; without a file, start with empty sections."""
        progress = cls(data_folder() / "learn.json" if file is None else Path(file))
        progress._merge_file()
        return progress

    def save(self) -> Path:
        """Write the entries changed since loading; entries changed by other processes stay."""
        with self._locked_update():
            return self.file

    def to_json(self) -> str:
        """Return all sections as JSON, in the format of the file."""
        sections = {name: getattr(self, name) for name in SECTIONS}
        document = with_checksum({"version": VERSION, **sections, **self.unknown_sections})
        return json.dumps(document, ensure_ascii=False, indent=1) + "\n"

    def clear(self, *sections: str) -> None:
        """Empty the named sections, by default all of `COURSE_SECTIONS`; call `save` afterwards."""
        for section in sections or COURSE_SECTIONS:
            if section not in COURSE_SECTIONS:
                raise ValueError(f"the sections are {', '.join(COURSE_SECTIONS)}, got {section!r}")
            getattr(self, section).clear()

    def exercise_record(self, exercise: Exercise) -> ExerciseRecord:
        """Return the progress in one exercise."""
        entry = self.exercises.get(exercise.name, {})
        fields = ExerciseRecord.__dataclass_fields__
        return ExerciseRecord(**{name: entry[name] for name in fields if name in entry})

    def next_exercise(self) -> Exercise | None:
        """Return the first exercise that was never passed; None if all were."""
        return next((exercise for exercise in exercises() if not self.exercise_record(exercise).passed), None)

    def record_attempt(self, exercise: Exercise, verdict: Verdict, file: Path | None = None) -> None:
        """Save the result of a run. An exercise that was passed once stays passed."""
        with self._locked_update():
            record = self.exercise_record(exercise)
            self._update_exercise(
                exercise,
                passed=record.passed or (date.today().isoformat() if verdict.passed else None),
                attempts=record.attempts + 1,
                last=None if verdict.passed else verdict.mistake or verdict.kind,
                file=str(file.resolve()) if file else record.file,
            )

    def record_hint(self, exercise: Exercise) -> None:
        """Save that one more hint was shown."""
        with self._locked_update():
            self._update_exercise(exercise, hints=self.exercise_record(exercise).hints + 1)

    def record_code(self, exercise: Exercise, code: str) -> None:
        """Save the code typed into the page."""
        with self._locked_update():
            self._update_exercise(exercise, code=code)

    def clear_exercise(self, exercise: Exercise) -> None:
        """Delete the progress in one exercise."""
        with self._locked_update():
            self.exercises.pop(exercise.name, None)

    def record_drill(self, drill: Drill, results: Sequence[StepResult], now: datetime) -> None:
        """Save the result of a drill. A drill that was passed once stays passed."""
        with self._locked_update():
            self.drills[drill.name] = {
                "level": drill.level,
                "passed": all_passed(results) or bool(self.drills.get(drill.name, {}).get("passed")),
                "wrong": [result.step for result in results if not result.passed],
                "last": now.isoformat(timespec="seconds"),
            }

    def record_diagram(self, diagram: str, correct: bool, now: datetime) -> None:
        """Save one attempt at a diagram. A diagram that was correct once stays done."""
        if diagram not in DIAGRAMS:
            raise ValueError(f"the diagrams are {', '.join(DIAGRAMS)}, got {diagram!r}")
        with self._locked_update():
            entry = self.flow.get(diagram, {})
            self.flow[diagram] = {
                "done": correct or bool(entry.get("done")),
                "tries": entry.get("tries", 0) + 1,
                "last": now.isoformat(timespec="seconds"),
            }

    def record_stage(self, stage: str, now: datetime) -> None:
        """Save that a stage of the learning path was completed; the first time counts."""
        if stage not in RECORDED_STAGES:
            raise ValueError(f"the recorded stages are {', '.join(RECORDED_STAGES)}, got {stage!r}")
        with self._locked_update():
            self.path.setdefault(stage, {"done": now.isoformat(timespec="seconds")})

    def _update_exercise(self, exercise: Exercise, **changes: Any) -> None:
        defaults = {"passed": None, "attempts": 0, "hints": 0, "last": None, "file": None}
        self.exercises[exercise.name] = {**defaults, **self.exercises.get(exercise.name, {}), **changes}

    @contextmanager
    def _locked_update(self) -> Iterator[None]:
        """Lock the file, merge what other processes wrote, run the caller's change, and write the file."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with lock_folder(self.file.parent):
            self._merge_file()
            yield
            write_atomic(self.file, self.to_json())
            self._saved = {name: deepcopy(getattr(self, name)) for name in SECTIONS}

    def _merge_file(self) -> None:
        """Read the file and apply the entries changed here since the last read or write."""
        try:
            document = _read(self.file)
        except UnreadableProgress as error:
            self.notice = _rename_unreadable(self.file, error)
            document = {name: deepcopy(getattr(self, name)) for name in SECTIONS} | self.unknown_sections
        if document.pop("checksum", None) not in (None, json_checksum(document)):
            self.notice = f"{self.file} was changed outside of regard, or is damaged; check your progress"
        for name in SECTIONS:
            section, saved, current = document.get(name, {}), self._saved.get(name, {}), getattr(self, name)
            self._saved[name] = deepcopy(section)
            for entry in [*saved, *current]:
                if entry not in current:
                    section.pop(entry, None)
                elif entry not in saved or current[entry] != saved[entry]:
                    section[entry] = current[entry]
            current.clear()
            current.update(section)
        self.unknown_sections = {name: document[name] for name in document if name not in (*SECTIONS, "version")}


def _read(path: Path) -> dict[str, Any]:
    try:
        document = parse_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnreadableProgress(f"the file is not JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("version"), int):
        raise UnreadableProgress('the file must contain a JSON object with a "version"')
    if document["version"] > VERSION:
        raise ValueError(
            f"{path} was written by a newer regard (format version {document['version']}, supported: {VERSION}); "
            "update regard, or set REGARD_HOME to another folder"
        )
    for name in SECTIONS:
        section = document.get(name, {})
        if not isinstance(section, dict):
            raise UnreadableProgress(f'the section "{name}" must be a JSON object')
        for entry in section.values() if name in COURSE_SECTIONS else ():
            if not isinstance(entry, dict) or any(not _is_count(entry.get(count, 0)) for count in COUNTS):
                raise UnreadableProgress(f'the section "{name}" must have entries with whole numbers, got {entry!r}')
    return document


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1_000_000_000


def _rename_unreadable(path: Path, error: UnreadableProgress) -> str:
    number = 1
    while (backup := path.with_name(f"{path.stem}.unreadable-{number}{path.suffix}")).exists():
        number += 1
    path.rename(backup)
    return f"{path} could not be read ({error}); it was renamed to {backup.name}, and a new file was started"
