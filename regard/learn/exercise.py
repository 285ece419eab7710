"""The exercises, one folder each: everything about an exercise is in its folder, and a test checks all of it.

    exercises/01-softmax/
        statement.en.md, statement.zh.md    the task; the first line is the title; the examples are run by a test
        hints.en.md, hints.zh.md            from a nudge to nearly the answer, divided by lines of ---
        starter.py                          what the learner begins with
        reference.py                        the answer that is shown after passing, and what cases are judged by
        cases.py                            NAMES, USES and cases(rng), see below
        drive.py                            optional: drive(code, *arguments), for what is more than one call
        mistakes.toml                       wrong answers by name, each an edit of the reference
        correct/*.py                        other right answers

`cases.py` says `NAMES`, the functions or classes the learner must define; `USES`, "numpy" or "torch"; optionally
`MUST_CALL`, names of which one has to be called (an einsum exercise is not solved by a matmul); and
`cases(rng)`, a list of `Case` with new shapes and values for every seed.

A mistake in `mistakes.toml` has two texts a language, its name and what to look at, and edits of the reference:

    [wrong-axis]
    en = ["Softmax over the wrong axis", "Your columns sum to 1, the rows do not. …"]
    zh = ["softmax 的轴弄错了", "……"]
    edits = [["axis=-1", "axis=0"]]

Written as edits, a mistake shows at a glance how it differs from the right answer, and nothing else differs.
"""

import ast
import importlib.util
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.languages import LANGUAGES, Language

if TYPE_CHECKING:
    from types import ModuleType

    from regard.learn.grader.case import Case

FOLDER = Path(__file__).parent / "exercises"


@dataclass(frozen=True)
class Mistake:
    """A wrong answer: its name, in words and as a key, and the source that makes it."""

    key: str
    title: Mapping[Language, str]
    advice: Mapping[Language, str]
    source: str


@dataclass(frozen=True)
class Exercise:
    """One folder of the course.

    >>> find_exercise("softmax").title("en")
    'Softmax that never overflows'
    """

    folder: Path

    @property
    def name(self) -> str:
        """The folder's name, such as 01-softmax."""
        return self.folder.name

    def title(self, language: Language) -> str:
        """The first line of the statement."""
        return self.statement(language).partition("\n")[0].removeprefix("# ").strip()

    def statement(self, language: Language) -> str:
        """The task, in Markdown."""
        return self._text(f"statement.{language}.md")

    def hints(self, language: Language) -> list[str]:
        """Hints in Markdown, the last one nearly the answer."""
        return [hint.strip("\n") for hint in self._text(f"hints.{language}.md").split("\n---\n")]

    @property
    def starter(self) -> str:
        """What the learner begins with."""
        return self._text("starter.py")

    @property
    def reference(self) -> str:
        """The answer."""
        return self._text("reference.py")

    @property
    def drive(self) -> str | None:
        """How the learner's code is called, where that is more than one call."""
        return self._text("drive.py") if (self.folder / "drive.py").exists() else None

    @property
    def names(self) -> list[str]:
        """What the learner must define."""
        return list(self._definition.NAMES)

    @cached_property
    def argument_names(self) -> list[str]:
        """What the arguments of a case are called."""
        tree = ast.parse(self.drive or self.reference)
        wanted = "drive" if self.drive else self.names[0]
        function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == wanted)
        names = [argument.arg for argument in function.args.args]
        return names[1:] if self.drive else names

    @property
    def uses(self) -> Literal["numpy", "torch"]:
        """The library of the exercise."""
        uses: Literal["numpy", "torch"] = self._definition.USES
        return uses

    @property
    def must_call(self) -> Sequence[str]:
        """Names of which one must be called; none for most exercises."""
        return getattr(self._definition, "MUST_CALL", ())

    def cases(self, seed: int) -> "list[Case]":
        """The cases of this seed."""
        import numpy as np

        made: list[Case] = self._definition.cases(np.random.default_rng(seed))
        return made

    @cached_property
    def mistakes(self) -> list[Mistake]:
        """The wrong answers that are known by name."""
        entries = tomllib.loads(self._text("mistakes.toml"))
        return [_mistake(key, entry, self.reference, self.name) for key, entry in entries.items()]

    @property
    def correct(self) -> dict[str, str]:
        """Other right answers, by the name of their file."""
        return {path.stem: path.read_text(encoding="utf-8") for path in sorted((self.folder / "correct").glob("*.py"))}

    def _text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    @cached_property
    def _definition(self) -> "ModuleType":
        spec: Any = importlib.util.spec_from_file_location(f"cases_of_{self.name}", self.folder / "cases.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@lru_cache(maxsize=1)
def exercises() -> tuple[Exercise, ...]:
    """All exercises, in the order of the course."""
    return tuple(Exercise(folder) for folder in sorted(FOLDER.iterdir()) if (folder / "cases.py").exists())


def find_exercise(name: str) -> Exercise:
    """The exercise called 01-softmax, by that name, its number or the rest: "1", "01", "softmax", "01_softmax".

    >>> find_exercise("1") is find_exercise("softmax") is find_exercise("01_softmax")
    True
    """
    wanted = name.strip().lower().replace("_", "-")
    for exercise in exercises():
        number, _, rest = exercise.name.partition("-")
        if wanted in (exercise.name, rest, number, number.lstrip("0")):
            return exercise
    known = ", ".join(exercise.name for exercise in exercises())
    raise ValueError(f"no exercise is called {name!r}; there are {known}")


def _mistake(key: str, entry: dict[str, Any], reference: str, exercise: str) -> Mistake:
    source = reference
    for old, new in entry["edits"]:
        if old not in source:
            raise ValueError(f"{exercise}/mistakes.toml, [{key}]: the reference does not contain {old!r}")
        source = source.replace(old, new)
    return Mistake(
        key,
        {language: entry[language][0] for language in LANGUAGES},
        {language: entry[language][1] for language in LANGUAGES},
        source,
    )
