"""Grade a learner's code and name its mistake.

The code runs on cases drawn from a seed, in a separate process. The model of the exercise gives the expected results in
this process. If all outcomes agree and the code does nothing that the statement forbids, it passes. Otherwise
`name_mistake` finds the mistakes that explain the outcomes, or states what is certain about them.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.languages import LANGUAGES, Bilingual, bilingual
from regard.learn.exercise import Exercise, find_exercise
from regard.learn.grader.array_text import format_inputs, format_pair
from regard.learn.grader.case import Case
from regard.learn.grader.compare import Difference, compare_outcomes
from regard.learn.grader.diagnose_difference import error_location, message_texts, result_name
from regard.learn.grader.name_mistake import name_mistake
from regard.learn.grader.verdict import FailingCase, Verdict
from regard.learn.mistakes import source_rules
from regard.learn.mistakes.recognise import evaluate, model_arguments
from regard.learn.sandbox import serialization
from regard.learn.sandbox.call_on_cases import call_all
from regard.learn.sandbox.run_in_child_process import Limits, Request, Run, Runner
from regard.learn.sandbox.serialization import Array
from regard.learn.sandbox.visible_text import visible_text, without_folders

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """Outcomes of running a source: of each case, and of the first case repeated; or why the source failed."""

    outcomes: Sequence[Outcome] = ()
    again: Outcome | None = None
    failed: dict[str, Any] | None = None
    missing: str | None = None


def grade(exercise: Exercise | str, source: str, seed: int | None = None, runner: Runner | None = None) -> Verdict:
    """Grade a learner's source text.

    exercise    an exercise or its name
    source      the learner's source text
    seed        seed of the cases; without one, every call draws new cases
    runner      runs the code; an isolated process by default

    >>> unstable = "import numpy as np\\ndef softmax(x): return np.exp(x) / np.exp(x).sum(-1, keepdims=True)"
    >>> verdict = grade("softmax", unstable)
    >>> verdict.mistake, verdict.title["zh"]
    ('unstable', '没有减去最大值')
    """
    exercise = find_exercise(exercise) if isinstance(exercise, str) else exercise
    seed = secrets.randbelow(2**31) if seed is None else seed
    runner = runner or Runner()
    cases = exercise.cases(seed)
    if source_rules.find_other_library(source) and exercise.uses == "numpy":
        run = Run(None, None, "", 0.0)  # the import would fail
    else:
        request = Request(source, exercise.names, pack_cases(exercise, cases), exercise.uses, exercise.drive)
        run = runner.run(request)
    return grade_run(exercise, source, seed, cases, run, runner.limits)


def pack_cases(exercise: Exercise, cases: Sequence[Case]) -> list[bytes]:
    """Serialize the arguments of the cases, and the largest case once more: float64 arrays, or float32 tensors.

    If the two outcomes of the largest case differ, the code is random or keeps state between calls.
    """
    packed = [serialization.pack(_to_library(case.arguments, exercise.uses)) for case in cases]
    return [*packed, max(packed, key=len)]


def _same_twice(exercise: Exercise, cases: Sequence[Case], answer: Answer) -> bool:
    """Return whether calls with equal arguments had equal outcomes."""
    sizes = [len(packed) for packed in pack_cases(exercise, cases)]
    pairs = [(answer.outcomes[0], answer.again or {}), (answer.outcomes[sizes.index(max(sizes))], answer.outcomes[-1])]
    return all(compare_outcomes(*pair) is None for pair in pairs)


def expected_outcomes(exercise: Exercise, cases: Sequence[Case]) -> list[Outcome]:
    """Return the expected outcome of each case: the values of the exercise's model, or the error that it raises."""
    dtype = np.float32 if exercise.uses == "torch" else np.float64

    def outcome(case: Case) -> Outcome:
        arguments = model_arguments(model_arguments(case.arguments, dtype), np.float64)
        result = evaluate(exercise, {}, arguments)
        if isinstance(result, BaseException):
            bases = [base.__name__ for base in type(result).__mro__]
            error = {"type": type(result).__name__, "bases": bases, "message": str(result), "line": None, "text": ""}
            return {"error": error}
        values = tuple(_to_library(np.asarray(value), exercise.uses) for value in result)
        return {"value": values if len(exercise.results) > 1 else values[0]}

    return [outcome(case) for case in cases]


def call_trusted(exercise: Exercise, source: str, packed: Sequence[bytes]) -> Answer:
    """Run a source that comes with regard, the reference or a mistake, on the cases in this process."""
    with np.errstate(all="ignore"):
        called = call_all(source, exercise.names, exercise.drive, list(packed), serialization)
    return read_answer(called, len(packed))


def read_answer(called: dict[str, Any], count: int) -> Answer:
    """Check and unpack the result of `call_all`; ValueError if it does not have the expected form."""
    try:
        if "failed" in called:
            return Answer(failed=_checked_error(called["failed"]))
        if "missing" in called:
            return Answer(missing=visible_text(str(called["missing"]), 100))
        outcomes = [_read_outcome(outcome) for outcome in called["outcomes"]]
        again = _read_outcome(called["again"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("not an answer of call_all: it must have outcomes and again, or failed, or missing") from error
    if len(outcomes) != count:
        raise ValueError(f"expected {count} outcomes, got {len(outcomes)}")
    return Answer(outcomes, again)


def grade_run(
    exercise: Exercise, source: str, seed: int, cases: Sequence[Case], run: Run, limits: Limits | None = None
) -> Verdict:
    """Return the verdict on a run of the source on the cases."""
    limits = limits or Limits()

    def verdict(
        kind: str,
        texts: tuple[Bilingual, Bilingual] | None = None,
        failing: FailingCase | None = None,
        mistake: str | None = None,
        sure: bool = True,
    ) -> Verdict:
        hints = {language: exercise.hints(language) for language in LANGUAGES}
        return Verdict(
            exercise.name, kind == "passed", kind, mistake, sure, *(texts or message_texts(kind)),
            failing, hints, run.printed, len(cases), seed, run.seconds, run.isolated,
        )  # fmt: skip

    def stopped(kind: str) -> Verdict:
        amounts = {"limit": limits.seconds, "memory": limits.memory >> 20, "written": limits.written >> 20}
        return verdict(kind, message_texts(kind, **amounts))

    broken = _broken_rule(exercise, source)
    if broken is not None:
        return verdict(*broken)
    if run.failure is not None or run.answer is None:
        return stopped(run.failure or "stopped")
    try:
        answer = read_answer(run.answer, len(cases) + 1)
    except ValueError:
        return stopped("unreadable")
    if answer.failed is not None:
        return stopped("memory") if _is_memory(answer.failed) else verdict(*_explain_failed(answer.failed))
    if answer.missing is not None:
        return verdict("missing", message_texts("missing", name=answer.missing))
    forbidden = next((o["error"] for o in answer.outcomes if o.get("error", {}).get("type") == "ForbiddenStep"), None)
    if forbidden is not None:
        return verdict(
            "forbidden", _forbidden_texts(exercise, forbidden["message"], forbidden["line"], forbidden["text"])
        )

    returned = next((o["error"] for o in answer.outcomes if o.get("error", {}).get("type") == "WrongReturn"), None)
    if returned is not None:
        function, count, got = returned["message"].split("|")
        key = "count-of-function" if got.isdigit() else "kind-of-function"
        return verdict("count", message_texts(key, function=function, count=count, got=got))

    outcomes = answer.outcomes[:-1]  # without the repeated case
    pairs = zip(expected_outcomes(exercise, cases), outcomes, strict=True)
    differences = [compare_outcomes(*pair) for pair in pairs]
    wrong = [i for i, difference in enumerate(differences) if difference]
    same_again = _same_twice(exercise, cases, answer)
    if not wrong:
        if any(outcome.get("mutated") for outcome in answer.outcomes):
            return verdict("mutated")
        if not same_again:
            return verdict("remembers")
        if exercise.must_call and not source_rules.calls_any(source, tuple(exercise.must_call)):
            names = " / ".join(f"`{name}`" for name in exercise.must_call)
            return verdict("must-call", message_texts("must-call", wanted=names))
        return verdict("passed", message_texts("passed", cases=len(cases)))

    if any("error" in outcome and _is_memory(outcome["error"]) for outcome in answer.outcomes):
        return stopped("memory")
    first = differences[wrong[0]]
    assert first is not None
    failing = _failing_case(exercise, cases[wrong[0]], first)
    if not same_again:
        return verdict("remembers", failing=failing)
    with np.errstate(all="ignore"):
        diagnosis = name_mistake(exercise, source, cases, outcomes, differences)
    shown = None if diagnosis.kind == "unwritten" else failing
    return verdict(diagnosis.kind, (diagnosis.title, diagnosis.message), shown, diagnosis.mistake, diagnosis.sure)


def _broken_rule(exercise: Exercise, source: str) -> tuple[str, tuple[Bilingual, Bilingual]] | None:
    """Return the kind and the texts of the first rule of the statement that the source breaks; None if none."""
    if exercise.uses == "numpy":
        other = source_rules.find_other_library(source)
        if other is not None:
            library = other.name.partition(".")[0]
            return "library", message_texts("library", library=library, line=other.line)
    use = source_rules.find_forbidden(source, tuple(exercise.forbidden))
    if use is not None:
        text = source.splitlines()[use.line - 1].strip()
        return "forbidden", _forbidden_texts(exercise, use.name.removeprefix("torch."), use.line, text)
    return None


def _forbidden_texts(exercise: Exercise, name: str, line: int | None, text: str) -> tuple[Bilingual, Bilingual]:
    where = error_location({"line": line, "text": text})
    return message_texts("forbidden-tile" if name == "tile" else "forbidden", name=name, where=where)


def _failing_case(exercise: Exercise, case: Case, difference: Difference) -> FailingCase:
    arguments = format_inputs(exercise.argument_names, case.arguments)
    which = None if difference.which is None else result_name(exercise, difference.which)
    expected, yours = format_pair(difference.expected, difference.yours)
    return FailingCase(bilingual(case.en, case.zh), arguments, expected, yours, which)


def _explain_failed(error: dict[str, Any]) -> tuple[str, tuple[Bilingual, Bilingual]]:
    if error["type"] in ("SystemExit", "KeyboardInterrupt"):
        return "exit", message_texts("exit")
    kind = "syntax" if "SyntaxError" in error["bases"] else "failed"
    return kind, message_texts(kind, where=error_location(error), **error)


def _is_memory(error: dict[str, Any]) -> bool:
    return error["type"] == "MemoryError" or "can't allocate memory" in error["message"]


def _read_outcome(outcome: dict[str, Any]) -> Outcome:
    if "error" in outcome:
        return {"error": _checked_error(outcome["error"])}
    return {"value": serialization.unpack(outcome["value"]), "mutated": bool(outcome["mutated"])}


def _checked_error(error: dict[str, Any]) -> dict[str, Any]:
    line = error["line"]
    return {
        "type": visible_text(str(error["type"]), 100),
        "bases": [str(base) for base in error["bases"]],
        "message": without_folders(visible_text(str(error["message"]), 500)),
        "line": line if isinstance(line, int) else None,
        "text": visible_text(str(error["text"]), 200),
    }


def _to_library(value: Any, uses: str) -> Any:
    if isinstance(value, np.ndarray):
        narrow = value.astype(np.float32) if uses == "torch" and value.dtype == np.float64 else value
        return Array(narrow, uses, narrow.dtype.name)
    if isinstance(value, tuple | list):
        return type(value)(_to_library(item, uses) for item in value)
    if isinstance(value, dict):
        return {key: _to_library(item, uses) for key, item in value.items()}
    return value
