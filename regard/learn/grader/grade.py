"""Grade a learner's code and name its mistake.

The code runs on cases drawn from a seed, in a separate process. The reference runs on the same cases in this process.
If all outcomes agree, the code passes. Otherwise every known mistake of the exercise runs on the same cases; the one
with the same outcomes as the learner's code is reported. If no mistake matches, the difference is described.
"""

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.languages import LANGUAGES, Bilingual, bilingual
from regard.learn.exercise import Exercise, Mistake, find_exercise
from regard.learn.grader.array_text import format_inputs, format_pair
from regard.learn.grader.case import Case
from regard.learn.grader.compare import Difference, compare_outcomes
from regard.learn.grader.diagnose_difference import EMPTY, error_location, explain, message_texts
from regard.learn.grader.verdict import FailingCase, Verdict
from regard.learn.sandbox import serialization
from regard.learn.sandbox.call_on_cases import call_all, called_names
from regard.learn.sandbox.run_in_child_process import Limits, Request, Run, Runner
from regard.learn.sandbox.serialization import Array

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """Outcomes of running a source: of each case, and of the first case repeated; or why the source failed."""

    outcomes: Sequence[Outcome] = ()
    again: Outcome | None = None
    failed: dict[str, Any] | None = None
    missing: str | None = None


def grade(exercise: Exercise | str, source: str, seed: int | None = None, runner: Runner | None = None) -> Verdict:
    """Grade a learner's source text; without a seed, every call draws new cases.

    >>> unstable = "import numpy as np\\ndef softmax(x): return np.exp(x) / np.exp(x).sum(-1, keepdims=True)"
    >>> verdict = grade("softmax", unstable)
    >>> verdict.mistake, verdict.title["zh"]
    ('unstable', '没有减去最大值')
    """
    exercise = find_exercise(exercise) if isinstance(exercise, str) else exercise
    seed = secrets.randbelow(2**31) if seed is None else seed
    runner = runner or Runner()
    cases = exercise.cases(seed)
    packed = pack_cases(exercise, cases)
    request = Request(source, exercise.names, packed, exercise.uses, exercise.drive)
    with ThreadPoolExecutor(1) as executor:  # the reference imports torch while the child does
        expected = executor.submit(call_trusted, exercise, exercise.reference, packed)
        run = runner.run(request)
        ours = expected.result()
    return grade_run(exercise, source, seed, cases, packed, ours, run, runner.limits)


def pack_cases(exercise: Exercise, cases: Sequence[Case]) -> list[bytes]:
    """Serialize the arguments of the cases: float64 arrays for NumPy, float32 tensors for torch."""
    return [serialization.pack(_to_library(case.arguments, exercise.uses)) for case in cases]


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
            return Answer(missing=str(called["missing"]))
        outcomes = [_read_outcome(outcome) for outcome in called["outcomes"]]
        again = _read_outcome(called["again"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("not an answer of call_all: it must have outcomes and again, or failed, or missing") from error
    if len(outcomes) != count:
        raise ValueError(f"expected {count} outcomes, got {len(outcomes)}")
    return Answer(outcomes, again)


def grade_run(
    exercise: Exercise,
    source: str,
    seed: int,
    cases: Sequence[Case],
    packed: Sequence[bytes],
    ours: Answer,
    run: Run,
    limits: Limits | None = None,
) -> Verdict:
    """Return the verdict on a run, given the outcomes of the reference."""
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
            failing, hints, run.printed, len(cases), seed, run.seconds,
        )  # fmt: skip

    def stopped(kind: str) -> Verdict:
        return verdict(kind, message_texts(kind, limit=limits.seconds, memory=limits.memory >> 20))

    if run.failure is not None or run.answer is None:
        return stopped(run.failure or "stopped")
    try:
        answer = read_answer(run.answer, len(cases))
    except ValueError:
        return stopped("unreadable")
    if answer.failed is not None:
        return stopped("memory") if _is_memory(answer.failed) else verdict(*_explain_failed(answer.failed))
    if answer.missing is not None:
        return verdict("missing", message_texts("missing", name=answer.missing))

    differences = [compare_outcomes(*pair) for pair in zip(ours.outcomes, answer.outcomes, strict=True)]
    wrong = [i for i, difference in enumerate(differences) if difference]
    same_again = compare_outcomes(answer.outcomes[0], answer.again or {}) is None
    if not wrong:
        if any(outcome.get("mutated") for outcome in answer.outcomes):
            return verdict("mutated")
        if not same_again:
            return verdict("remembers")
        if exercise.must_call and not called_names(source) & set(exercise.must_call):
            names = " / ".join(f"`{name}`" for name in exercise.must_call)
            return verdict("must-call", message_texts("must-call", wanted=names))
        return verdict("passed", message_texts("passed", cases=len(cases)))

    first = differences[wrong[0]]
    assert first is not None
    if any("error" in outcome and _is_memory(outcome["error"]) for outcome in answer.outcomes):
        return stopped("memory")
    failing = _failing_case(exercise, cases[wrong[0]], first)
    mistake, sure = _find_mistake(exercise, packed, answer, wrong)
    if mistake is None and not same_again:
        return verdict("remembers", failing=failing)
    if mistake is None:
        kind, title, message = explain(first)
        return verdict(kind, (title, message), None if kind == "unwritten" else failing)
    more = EMPTY if sure else message_texts("partly")[1]
    advice: Bilingual = {language: mistake.advice[language] + more[language] for language in LANGUAGES}
    return verdict("mistake", (mistake.title, advice), failing, mistake.key, sure)


def _find_mistake(
    exercise: Exercise, packed: Sequence[bytes], answer: Answer, wrong: Sequence[int]
) -> tuple[Mistake | None, bool]:
    """Return a known mistake and whether it explains all cases; otherwise it explains only the first failing case."""
    best: tuple[int, Mistake | None] = (0, None)
    for mistake in exercise.mistakes:
        theirs = call_trusted(exercise, mistake.source, packed).outcomes
        agrees = [compare_outcomes(*pair) is None for pair in zip(theirs, answer.outcomes, strict=True)]
        if all(agrees):
            return mistake, True
        # Equal errors do not count: two sources may raise the same error for different reasons.
        explained = [i for i in wrong if agrees[i] and "value" in theirs[i]]
        if wrong[0] in explained and len(explained) > best[0]:
            best = len(explained), mistake
    return best[1], False


def _failing_case(exercise: Exercise, case: Case, difference: Difference) -> FailingCase:
    arguments = format_inputs(exercise.argument_names, case.arguments)
    which = None if difference.which is None else difference.which + 1
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
    return {
        "type": str(error["type"]),
        "bases": [str(base) for base in error["bases"]],
        "message": str(error["message"]),
        "line": error["line"],
        "text": str(error["text"]),
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
