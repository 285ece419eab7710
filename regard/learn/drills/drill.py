"""A computation by hand, in steps, and the judgement of what was answered.

Every step is judged with the learner's **own** values before it: whoever slips in the first step and goes on rightly
has one step wrong, not all. A wrong step is compared with what the usual mistakes would have given, and the one that
fits is named.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.languages import Bilingual, bilingual
from regard.learn.drills.exact_numbers import format_number
from regard.learn.drills.matrices import Matrix, close, different, format_matrix, shape, transposed
from regard.learn.drills.parse_answer import Unread, read_matrix

Values = Mapping[str, Matrix]  # what is given and what was computed so far, by name
Compute = Callable[[Values], Matrix]
Outcome = Literal["right", "carried", "wrong", "unread", "blank"]

TRANSPOSED = bilingual(
    "Rows and columns are swapped: a row belongs to a query, a column to a key.",
    "行和列弄反了：一行对应一个查询，一列对应一个键。",
)
SIGN = bilingual("The numbers are right, the sign is not.", "数值对了，符号反了。")


@dataclass(frozen=True)
class Mistake:
    """A usual mistake: its name, what to say of it, and what it gives."""

    name: str
    message: Bilingual
    compute: Compute


@dataclass(frozen=True)
class Step:
    """One thing to compute, from what is given and the steps before."""

    name: str
    ask: Bilingual
    compute: Compute
    mistakes: tuple[Mistake, ...] = ()


@dataclass(frozen=True)
class StepResult:
    """How a step was answered.

    right       as it should be
    carried     wrong in itself, but right for the learner's own values before it
    wrong       `mistake` names the mistake it looks like, if any; `cells` are the (row, column) that differ
    unread      it could not be read; `says` tells how to write it
    blank       nothing was answered

    `expected` follows from the learner's own values, `true` from the right ones.
    """

    step: str
    outcome: Outcome
    message: Bilingual
    expected: Matrix = field(repr=False)
    true: Matrix = field(repr=False)
    mistake: str | None = None
    cells: tuple[tuple[int, int], ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """The result with its numbers as they are typed."""
        return {
            "step": self.step,
            "outcome": self.outcome,
            "passed": self.passed,
            "says": dict(self.message),
            "mistake": self.mistake,
            "cells": [list(cell) for cell in self.cells],
            "expected": [[format_number(x) for x in row] for row in self.expected],
            "true": [[format_number(x) for x in row] for row in self.true],
        }

    @property
    def passed(self) -> bool:
        """Whether this step itself was done rightly."""
        return self.outcome in ("right", "carried")


@dataclass(frozen=True)
class Drill:
    """A task with what is given and the steps to answer."""

    kind: str
    level: int
    seed: int
    title: Bilingual
    statement: Bilingual
    given: Values = field(repr=False)
    steps: tuple[Step, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """Enough to make the same drill again."""
        return f"{self.kind}:{self.level}:{self.seed}"

    def answers(self) -> dict[str, Matrix]:
        """The right answers, by step."""
        values = dict(self.given)
        for step in self.steps:
            values[step.name] = step.compute(values)
        return {step.name: values[step.name] for step in self.steps}

    def to_plain(self) -> dict[str, Any]:
        """What a page needs to ask it: texts, what is given as it is typed, and the size of every answer."""
        sizes = {name: shape(value) for name, value in self.answers().items()}
        return {
            "name": self.name,
            "kind": self.kind,
            "level": self.level,
            "seed": self.seed,
            "title": dict(self.title),
            "statement": dict(self.statement),
            "given": {name: [[format_number(x) for x in row] for row in value] for name, value in self.given.items()},
            "steps": [
                {"name": step.name, "ask": dict(step.ask), "rows": sizes[step.name][0], "columns": sizes[step.name][1]}
                for step in self.steps
            ],
        }

    def check(self, answers: Mapping[str, object] | Sequence[object]) -> list[StepResult]:
        """Judge answers, by the steps' names or in their order; an empty one is blank."""
        if isinstance(answers, str):
            raise TypeError(f"answers must be a list or a mapping by step, got the text {answers[:20]!r}")
        if not isinstance(answers, Mapping):
            if len(answers) > len(self.steps):
                raise ValueError(f"this drill has {len(self.steps)} steps, got {len(answers)} answers")
            answers = dict(zip([step.name for step in self.steps], answers, strict=False))
        unknown = set(answers) - {step.name for step in self.steps}
        if unknown:
            raise ValueError(f"the steps are {', '.join(s.name for s in self.steps)}, got {sorted(unknown)[0]!r}")
        true, own = dict(self.given), dict(self.given)
        results = []
        for step in self.steps:
            true[step.name] = step.compute(true)
            expected = _attempt(step.compute, own) or true[step.name]
            result, value = _judge(step, answers.get(step.name, ""), expected, true, own)
            own[step.name] = value
            results.append(result)
        return results


def all_passed(results: Sequence[StepResult]) -> bool:
    """Whether every step was done rightly."""
    return all(result.passed for result in results)


def _judge(step: Step, answer: object, expected: Matrix, true: Values, own: Values) -> tuple[StepResult, Matrix]:
    right = true[step.name]

    def result(outcome: Outcome, says: Bilingual, **more: object) -> StepResult:
        return StepResult(step.name, outcome, says, expected, right, **more)  # type: ignore[arg-type]

    if answer is None or answer == [] or (isinstance(answer, str) and not answer.strip()):
        return result("blank", bilingual("No answer.", "未作答。")), expected
    try:
        value = read_matrix(answer, *shape(right))
    except Unread as error:
        return result(
            "unread", bilingual(f"Not read: {error.message['en']}.", f"没有读懂：{error.message['zh']}。")
        ), expected
    if close(value, right):
        return result("right", bilingual("Right.", "正确。")), value
    if close(value, expected):
        says = bilingual("Right for your own numbers before it.", "就你前面的数值而言，这一步是对的。")
        return result("carried", says), value
    cells = tuple(different(value, expected))
    name, says = _named(step, value, expected, true, own) or (None, _where(cells, expected))
    return result("wrong", says, mistake=name, cells=cells), value


def _named(step: Step, value: Matrix, expected: Matrix, true: Values, own: Values) -> tuple[str, Bilingual] | None:
    for values in (own, true):
        for mistake in step.mistakes:
            made = _attempt(mistake.compute, values)
            if made is not None and shape(made) == shape(value) and close(value, made):
                return mistake.name, mistake.message
    rows, columns = shape(value)
    if rows == columns and close(value, transposed(expected)):
        return "transposed", TRANSPOSED
    if close([[-x for x in row] for row in value], expected):
        return "sign", SIGN
    return None


def _attempt(compute: Compute, values: Values) -> Matrix | None:
    # A learner's own numbers may have no result: a sum of 0 to divide by, a score of a million.
    try:
        return compute(values)
    except (ArithmeticError, ValueError):
        return None


def _where(cells: Sequence[tuple[int, int]], expected: Matrix) -> Bilingual:
    rows, columns = shape(expected)
    if rows * columns == 1:
        return bilingual(
            "Not what follows from the step before; compute it again.", "和上一步的结果对不上，请重新算一遍。"
        )
    i, j = cells[0]
    if len(cells) == rows * columns:
        return bilingual("None of the numbers follows from the step before.", "没有一个数能由上一步得到。")
    place = f"row {i + 1}, column {j + 1}" if rows > 1 else f"number {j + 1}"
    ort = f"第 {i + 1} 行第 {j + 1} 列" if rows > 1 else f"第 {j + 1} 个数"
    more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
    return bilingual(
        f"Look again at {place}{more}; the rest is right.",
        f"再检查一下{ort}{f'等 {len(cells)} 处' if len(cells) > 1 else ''}，其余都对。",
    )


def statement(en: str, zh: str, given: Values) -> Bilingual:
    """The task with the matrices that are given written below it, as Q = …"""
    blocks = []
    for name, value in given.items():
        lines = format_matrix(value).splitlines()
        margin = " " * (len(name) + 3)
        blocks.append(f"{name} = {lines[0]}" + "".join(f"\n{margin}{line}" for line in lines[1:]))
    below = "\n\n".join(blocks)
    return bilingual(f"{en}\n\n{below}".rstrip(), f"{zh}\n\n{below}".rstrip())
