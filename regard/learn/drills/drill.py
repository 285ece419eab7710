"""A calculation by hand in steps, and the grading of a learner's answers.

Every step is graded with the learner's **own** results of the steps before: a mistake in the first step followed by
correct calculations is one wrong step, not many. A wrong answer is compared with the results of common mistakes, and
the mistake that gives the same numbers is named.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.languages import Bilingual, bilingual
from regard.learn.drills.exact_numbers import format_number
from regard.learn.drills.matrices import Matrix, close, differing_cells, shape, transpose
from regard.learn.drills.parse_answer import UnreadableAnswer, read_matrix
from regard.learn.drills.texts import drill_text

Values = Mapping[str, Matrix]  # the given matrices and the results of earlier steps, by name
Compute = Callable[[Values], Matrix]
Outcome = Literal["right", "carried", "wrong", "unread", "blank"]


@dataclass(frozen=True)
class Mistake:
    """A common mistake: its name, the wrong result, and the key of its text if that differs from the name."""

    name: str
    compute: Compute
    text_key: str | None = None

    @property
    def message(self) -> Bilingual:
        """Return the explanation of the mistake."""
        return drill_text("mistake", self.text_key or self.name)


@dataclass(frozen=True)
class Step:
    """One matrix to compute from the given matrices and the earlier steps."""

    name: str
    instruction: Bilingual
    compute: Compute
    mistakes: tuple[Mistake, ...] = ()


def make_step(name: str, compute: Compute, *mistakes: Mistake, text_key: str | None = None, **values: object) -> Step:
    """Return a step whose instruction is the text of its name, or of another key, filled in with the values."""
    return Step(name, drill_text("step", text_key or name, **values), compute, mistakes)


@dataclass(frozen=True)
class Task:
    """The content of a drill: given matrices, steps, and the values of the placeholders in its statement."""

    inputs: Values
    steps: tuple[Step, ...]
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class StepResult:
    """The grading of one step.

    right       the answer is correct
    carried     the answer is wrong only because of the learner's own earlier results
    wrong       `mistake` names the common mistake that gives this answer, if any; `cells` are the (row, column) that
                differ
    unread      the answer cannot be read; `message` says how to write it
    blank       there is no answer

    `expected` follows from the learner's own earlier results, `true` from the correct ones.
    """

    step: str
    outcome: Outcome
    message: Bilingual
    expected: Matrix = field(repr=False)
    true: Matrix = field(repr=False)
    mistake: str | None = None
    cells: tuple[tuple[int, int], ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """Return the result as JSON values, with numbers as they are typed."""
        return {name: getattr(self, name) for name in ("step", "outcome", "passed", "mistake")} | {
            "says": dict(self.message),
            "cells": [list(cell) for cell in self.cells],
            "expected": _number_texts(self.expected),
            "true": _number_texts(self.true),
        }

    @property
    def passed(self) -> bool:
        """Return whether this step was calculated correctly, apart from mistakes in earlier steps."""
        return self.outcome in ("right", "carried")


@dataclass(frozen=True)
class Drill:
    """A statement, the given matrices, and the steps to calculate.

    kind, level, seed   what `drill` was called with; the same three give the same numbers
    title, statement    texts in both languages
    inputs              the given matrices by name
    steps               the steps to calculate

    >>> from regard.learn import drill
    >>> task = drill(level=1, seed=0, kind="weighted-sum")
    >>> print(task.statement["en"])
    The weights of one query on three keys are given. Each row of V is a value of width 2. Compute the output.
    <BLANKLINE>
    weights = [ 2/7  3/7  2/7 ]
    <BLANKLINE>
    V = [  8  10 ]
        [  4   3 ]
        [ 10   9 ]
    >>> [(result.outcome, result.message["en"]) for result in task.check(["48/7, 47/7"])]
    [('right', 'Right.')]
    """

    kind: str
    level: int
    seed: int
    title: Bilingual
    statement: Bilingual
    inputs: Values = field(repr=False)
    steps: tuple[Step, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """Return the name from which `find_drill` makes the same drill again."""
        return f"{self.kind}:{self.level}:{self.seed}"

    def answers(self) -> dict[str, Matrix]:
        """Return the correct result of each step."""
        values = dict(self.inputs)
        for step in self.steps:
            values[step.name] = step.compute(values)
        return {step.name: values[step.name] for step in self.steps}

    def to_plain(self) -> dict[str, Any]:
        """Return texts, given numbers and the shape of every answer as JSON values, for the page."""
        sizes = {name: shape(value) for name, value in self.answers().items()}
        return {name: getattr(self, name) for name in ("name", "kind", "level", "seed")} | {
            "title": dict(self.title),
            "statement": dict(self.statement),
            "given": {name: _number_texts(value) for name, value in self.inputs.items()},
            "steps": [
                {"name": s.name, "ask": dict(s.instruction), "rows": sizes[s.name][0], "columns": sizes[s.name][1]}
                for s in self.steps
            ],
        }

    def check(self, answers: Mapping[str, object] | Sequence[object]) -> list[StepResult]:
        """Grade answers, given by step name or in the order of the steps; a missing answer is blank."""
        names = [step.name for step in self.steps]
        if isinstance(answers, str):
            raise TypeError(f"answers must be a list or a mapping by step, got the text {answers[:20]!r}")
        if not isinstance(answers, Mapping):
            if len(answers) > len(names):
                raise ValueError(f"this drill has {len(names)} steps, got {len(answers)} answers")
            answers = dict(zip(names, answers, strict=False))
        unknown = set(answers) - set(names)
        if unknown:
            raise ValueError(f"the steps are {', '.join(names)}, got {sorted(unknown)[0]!r}")
        true, own = dict(self.inputs), dict(self.inputs)
        results = []
        for step in self.steps:
            true[step.name] = step.compute(true)
            expected = _compute_or_none(step.compute, own) or true[step.name]
            result, own[step.name] = _grade_step(step, answers.get(step.name, ""), expected, true, own)
            results.append(result)
        return results


def all_passed(results: Sequence[StepResult]) -> bool:
    """Return whether every step was calculated correctly."""
    return all(result.passed for result in results)


def _grade_step(step: Step, answer: object, expected: Matrix, true: Values, own: Values) -> tuple[StepResult, Matrix]:
    """Return the result of a step and the matrix that later steps use as the learner's own."""
    correct = true[step.name]

    def result(outcome: Outcome, message: Bilingual | None = None, **details: Any) -> StepResult:
        return StepResult(step.name, outcome, message or drill_text("feedback", outcome), expected, correct, **details)

    if answer is None or answer == [] or (isinstance(answer, str) and not answer.strip()):
        return result("blank"), expected
    try:
        value = read_matrix(answer, *shape(correct))
    except UnreadableAnswer as error:
        return result("unread", drill_text("feedback", "unread", reason=error.message)), expected
    if close(value, correct):
        return result("right"), value
    if close(value, expected):
        return result("carried"), value
    cells = tuple(differing_cells(value, expected))
    mistake = _name_mistake(step, value, expected, true, own)
    message = drill_text("mistake", mistake[1]) if mistake else _describe_cells(cells, expected)
    return result("wrong", message, mistake=mistake[0] if mistake else None, cells=cells), value


def _name_mistake(step: Step, value: Matrix, expected: Matrix, true: Values, own: Values) -> tuple[str, str] | None:
    """Return the name and the text key of the common mistake that gives this value, or None."""
    for values in (own, true):
        for mistake in step.mistakes:
            wrong = _compute_or_none(mistake.compute, values)
            if wrong is not None and shape(wrong) == shape(value) and close(value, wrong):
                return mistake.name, mistake.text_key or mistake.name
    rows, columns = shape(value)
    if rows == columns and close(value, transpose(expected)):
        return "transposed", "transposed"
    if close([[-x for x in row] for row in value], expected):
        return "sign", "sign"
    return None


def _compute_or_none(compute: Compute, values: Values) -> Matrix | None:
    # The learner's own numbers may have no result: division by a sum of 0, e to the power of a million.
    try:
        return compute(values)
    except (ArithmeticError, ValueError):
        return None


def _describe_cells(cells: Sequence[tuple[int, int]], expected: Matrix) -> Bilingual:
    rows, columns = shape(expected)
    if rows * columns == 1:
        return drill_text("feedback", "number-differs")
    if len(cells) == rows * columns:
        return drill_text("feedback", "all-differ")
    i, j = cells[0][0] + 1, cells[0][1] + 1
    texts = (f"row {i}, column {j}", f"第 {i} 行第 {j} 列") if rows > 1 else (f"number {j}", f"第 {j} 个数")
    more = bilingual(f" and {len(cells) - 1} more", f"等 {len(cells)} 处") if len(cells) > 1 else ""
    return drill_text("feedback", "some-differ", place=bilingual(*texts), more=more)


def _number_texts(a: Matrix) -> list[list[str]]:
    return [[format_number(x) for x in row] for row in a]
