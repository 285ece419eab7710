"""What a learner has done, in one readable file.

    {"version": 1, "exercises": {…}, "cards": {…}, "drills": {…}, "flow": {…}, "settings": {…}}

A section belongs to one part of the course, and holds entries by name. Sections and entries that this version does
not know are kept as they are. The file is `learn.json` in the user's data folder, or in `REGARD_HOME`.

Nothing is ever lost: the file is written whole or not at all; one that cannot be read is moved aside, not
overwritten; and saving changes only the entries that were changed here, one writer after the other, so that a page
and a terminal may be open at once.
"""

import json
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from regard.files import lock_folder, write_atomic

VERSION = 1
SECTIONS = ("exercises", "cards", "drills", "flow", "settings")
PARTS = SECTIONS[:4]  # what a learner has done, and may want to forget

Section = dict[str, Any]


class Unreadable(ValueError):
    """The file is no state of a learner."""


def home() -> Path:
    """The folder of the course's files: `REGARD_HOME`, or the user's data folder."""
    told = os.environ.get("REGARD_HOME")
    return Path(told).expanduser() if told else platformdirs.user_data_path("regard", appauthor=False)


@dataclass
class State:
    """What was done, by section; `notice` says what the learner should know about the file, if anything.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     state = State.load(Path(folder) / "learn.json")
    ...     state.settings["language"] = "zh"
    ...     _ = state.save()
    ...     State.load(state.file).settings
    {'language': 'zh'}
    """

    file: Path
    exercises: Section = field(default_factory=dict)
    cards: Section = field(default_factory=dict)
    drills: Section = field(default_factory=dict)
    flow: Section = field(default_factory=dict)
    settings: Section = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    notice: str | None = None
    _before: Mapping[str, Section] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, file: str | os.PathLike[str] | None = None) -> "State":
        """The state in a file, an empty one if there is no file yet."""
        path = home() / "learn.json" if file is None else Path(file)
        notice = None
        try:
            document = _read(path)
        except Unreadable as error:
            document, notice = {}, _kept_aside(path, error)
        sections = {name: document.get(name, {}) for name in SECTIONS}
        others = {name: value for name, value in document.items() if name not in (*SECTIONS, "version")}
        return cls(path, **sections, others=others, notice=notice, _before=deepcopy(sections))

    def save(self) -> Path:
        """Write what was changed since it was loaded, over what the file holds now."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with lock_folder(self.file.parent):
            return self._merge()

    def forget(self, *parts: str) -> None:
        """Empty these parts of the course: exercises, cards, drills, flow; all of them if none is named."""
        for part in parts or PARTS:
            if part not in PARTS:
                raise ValueError(f"the parts are {', '.join(PARTS)}, got {part!r}")
            getattr(self, part).clear()

    def _merge(self) -> Path:
        try:
            document = _read(self.file)
        except Unreadable as error:
            self.notice = _kept_aside(self.file, error)
            document = json.loads(self.export())
        for name in SECTIONS:
            section, before, now = document.setdefault(name, {}), self._before.get(name, {}), getattr(self, name)
            for entry in [*before, *now]:
                if entry not in now:
                    section.pop(entry, None)
                elif entry not in before or now[entry] != before[entry]:
                    section[entry] = now[entry]
            now.clear()
            now.update(deepcopy(section))
        self._before = {name: deepcopy(getattr(self, name)) for name in SECTIONS}
        return write_atomic(self.file, _written(document))

    def export(self) -> str:
        """All of it as JSON, as it would stand in the file."""
        return _written({name: getattr(self, name) for name in SECTIONS} | self.others)


def _written(document: Mapping[str, Any]) -> str:
    ordered = {name: document[name] for name in SECTIONS if name in document}
    rest = {name: value for name, value in document.items() if name not in (*SECTIONS, "version")}
    return json.dumps({"version": VERSION, **ordered, **rest}, ensure_ascii=False, indent=1) + "\n"


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise Unreadable(f"not JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("version"), int):
        raise Unreadable('no object with a "version"')
    if document["version"] > VERSION:
        raise ValueError(
            f"{path} was written by a newer regard (version {document['version']}, this one knows {VERSION}); "
            "update regard, or set REGARD_HOME to another folder"
        )
    wrong = [name for name in SECTIONS if not isinstance(document.get(name, {}), dict)]
    if wrong:
        raise Unreadable(f'"{wrong[0]}" is not an object')
    return document


def _kept_aside(path: Path, error: Unreadable) -> str:
    number = 1
    while (kept := path.with_name(f"{path.stem}.unreadable-{number}{path.suffix}")).exists():
        number += 1
    path.rename(kept)
    return f"{path} could not be read ({error}); it was kept as {kept.name}, and a new one begins"
