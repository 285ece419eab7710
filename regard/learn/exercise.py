"""Programming exercises, one folder each.

    exercises/01-softmax/
        statement.en.md, statement.zh.md    the task; its first line is the title; tests run its examples
        hints.en.md, hints.zh.md            hints, the last one nearly the solution, separated by lines of ---
        starter.py                          code to start from
        reference.py                        the solution shown after passing
        cases.py                            NAMES, USES, RESULTS and cases(rng), see below
        model.py                            the computation in NumPy, correct and with mistakes in its parts
        drive.py                            optional: drive(code, *arguments), if a case needs more than one call
        mistakes.toml                       mistakes with a text of their own, each with an edit of the reference
        correct/*.py                        other correct solutions

`cases.py` defines `NAMES`, the functions or classes the learner must define; `USES`, "numpy" or "torch"; `RESULTS`,
the names of the returned values; optionally `MUST_CALL`, names of which the code must call at least one (for an einsum
exercise, matmul is not accepted), and `FORBIDDEN`, names that it must not use; and `cases(rng)`, which returns a list
of `Case` with new shapes and values for every seed. A `drive.py` may raise `ForbiddenStep` when the code does what the
statement forbids.

`model.py` defines `PARTS`, the mistakes that can be made in each part of the computation, and
`model(made, *arguments)`, which computes the results with the mistakes `made` (see regard/learn/mistakes). Without a
mistake it gives the expected results.

A mistake in `mistakes.toml` has a title and an advice in each language, and edits of the reference:

    [wrong-axis]
    en = ["Softmax over the wrong axis", "Your columns sum to 1, the rows do not. …"]
    zh = ["softmax 的轴弄错了", "……"]
    edits = [["axis=-1", "axis=0"]]

The edits make a program with this mistake, with which the tests check that the mistake is recognised.
"""

import ast
import importlib.util
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.languages import LANGUAGES, Bilingual, Language

if TYPE_CHECKING:
    from types import ModuleType

    from regard.learn.grader.case import Case

FOLDER = Path(__file__).parent / "exercises"


@dataclass(frozen=True)
class Mistake:
    """A known mistake: its key, title and advice, and a source text that contains it."""

    key: str
    title: Bilingual
    advice: Bilingual
    source: str


@dataclass(frozen=True)
class Exercise:
    """One exercise, read from its folder.

    >>> find_exercise("softmax").title("en")
    'Softmax that never overflows'
    """

    folder: Path

    @property
    def name(self) -> str:
        """Return the name of the folder, such as 01-softmax."""
        return self.folder.name

    def title(self, language: Language) -> str:
        """Return the first line of the statement."""
        return self.statement(language).partition("\n")[0].removeprefix("# ").strip()

    def statement(self, language: Language) -> str:
        """Return the task, in Markdown."""
        return self._text(f"statement.{language}.md")

    def hints(self, language: Language) -> list[str]:
        """Return the hints, in Markdown; the last one is nearly the solution."""
        return [hint.strip("\n") for hint in self._text(f"hints.{language}.md").split("\n---\n")]

    @property
    def starter(self) -> str:
        """Return the code to start from."""
        return self._text("starter.py")

    @property
    def reference(self) -> str:
        """Return the source of the solution."""
        return self._text("reference.py")

    @property
    def drive(self) -> str | None:
        """Return the source of drive.py, which calls the learner's code; None if each case is a single call."""
        return self._text("drive.py") if (self.folder / "drive.py").exists() else None

    @property
    def names(self) -> list[str]:
        """Return the names that the learner's code must define."""
        return list(self._definition.NAMES)

    @cached_property
    def argument_names(self) -> list[str]:
        """Return the names of the arguments of a case."""
        tree = ast.parse(self.drive or self.reference)
        name = "drive" if self.drive else self.names[0]
        function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
        names = [argument.arg for argument in function.args.args]
        return names[1:] if self.drive else names

    @property
    def uses(self) -> Literal["numpy", "torch"]:
        """Return the library that the exercise uses."""
        uses: Literal["numpy", "torch"] = self._definition.USES
        return uses

    @property
    def must_call(self) -> Sequence[str]:
        """Return names of which the code must call at least one; empty for most exercises."""
        return getattr(self._definition, "MUST_CALL", ())

    @property
    def forbidden(self) -> Sequence[str]:
        """Return the names that the statement forbids, such as "torch.*.linear"; empty for most exercises."""
        return getattr(self._definition, "FORBIDDEN", ())

    @property
    def results(self) -> Sequence[str]:
        """Return the names of the values that the code returns, such as "weights" or "weights of forward"."""
        results: Sequence[str] = self._definition.RESULTS
        return results

    def cases(self, seed: int) -> "list[Case]":
        """Return the test cases that this seed generates."""
        import numpy as np

        cases: list[Case] = self._definition.cases(np.random.default_rng(seed))
        return cases

    @cached_property
    def model(self) -> "ModuleType":
        """Return the module model.py: `PARTS`, and `model(made, *arguments)` in NumPy."""
        return self._load("model")

    @cached_property
    def mistakes(self) -> list[Mistake]:
        """Return the known mistakes."""
        entries = tomllib.loads(self._text("mistakes.toml"))
        return [_mistake(key, entry, self.reference, self.name) for key, entry in entries.items()]

    @property
    def correct(self) -> dict[str, str]:
        """Return other correct solutions, by the name of their file."""
        return {path.stem: path.read_text(encoding="utf-8") for path in sorted((self.folder / "correct").glob("*.py"))}

    def _text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    @cached_property
    def _definition(self) -> "ModuleType":
        return self._load("cases")

    def _load(self, name: str) -> "ModuleType":
        spec: Any = importlib.util.spec_from_file_location(f"{name}_of_{self.name}", self.folder / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@lru_cache(maxsize=1)
def exercises() -> tuple[Exercise, ...]:
    """Return all exercises, in the order of the course.

    >>> exercises()[0].name
    '01-softmax'
    """
    return tuple(Exercise(folder) for folder in sorted(FOLDER.iterdir()) if (folder / "cases.py").exists())


def find_exercise(name: str) -> Exercise:
    """Return the exercise with this name: "01-softmax", "01_softmax", "softmax", "01" or "1".

    >>> find_exercise("1") is find_exercise("softmax") is find_exercise("01_softmax")
    True
    """
    normalized = name.strip().lower().replace("_", "-")
    for exercise in exercises():
        number, _, rest = exercise.name.partition("-")
        if normalized in (exercise.name, rest, number, number.lstrip("0")):
            return exercise
    names = ", ".join(exercise.name for exercise in exercises())
    raise ValueError(f"no exercise is called {name!r}; the exercises are {names}")


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
