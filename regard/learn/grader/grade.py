"""Grade a learner's code and name its mistake.

The code is called on cases made from a seed, in a process of its own; the reference is called on the same cases
here. If all outcomes agree, it passes. If not, every known wrong answer of the exercise is called on those cases,
too: the one that gives what the learner's code gives, everywhere, is the mistake that was made. When none does,
the difference itself is described.
"""

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.languages import LANGUAGES
from regard.learn.exercise import Exercise, Mistake, find_exercise
from regard.learn.grader.array_text import format_inputs, format_pair
from regard.learn.grader.case import Case
from regard.learn.grader.compare import Difference, difference
from regard.learn.grader.diagnosis import Texts, error_location, explain, message_texts
from regard.learn.grader.verdict import FailingCase, Verdict
from regard.learn.sandbox import call_code as calling
from regard.learn.sandbox import serialization
from regard.learn.sandbox.runner import Limits, Request, Run, Runner
from regard.learn.sandbox.serialization import Array

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a source did: the outcome of each case and of the first once more; or why it could not be called."""

    outcomes: Sequence[Outcome] = ()
    again: Outcome | None = None
    failed: dict[str, Any] | None = None
    missing: str | None = None


def grade(exercise: Exercise | str, source: str, seed: int | None = None, runner: Runner | None = None) -> Verdict:
    """The verdict on a source; other cases every time unless a seed is given.

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
    with ThreadPoolExecutor(1) as beside:  # the reference may have to import torch, as the child does
        expected = beside.submit(trusted, exercise, exercise.reference, packed)
        run = runner.run(request)
        ours = expected.result()
    return judge(exercise, source, seed, cases, packed, ours, run, runner.limits)


def pack_cases(exercise: Exercise, cases: Sequence[Case]) -> list[bytes]:
    """The arguments as they are sent: float64 arrays for NumPy, float32 tensors for torch."""
    return [serialization.pack(_sent(case.arguments, exercise.uses)) for case in cases]


def trusted(exercise: Exercise, source: str, packed: Sequence[bytes]) -> Answer:
    """What a source of our own does, called in this process."""
    with np.errstate(all="ignore"):
        called = calling.call_all(source, exercise.names, exercise.drive, list(packed), serialization)
    return read_answer(called, len(packed))


def read_answer(called: dict[str, Any], count: int) -> Answer:
    """The answer in what `calling.call_all` returned; ValueError if it is not what that function returns."""
    try:
        if "failed" in called:
            return Answer(failed=_checked_error(called["failed"]))
        if "missing" in called:
            return Answer(missing=str(called["missing"]))
        outcomes = [_read_outcome(outcome) for outcome in called["outcomes"]]
        again = _read_outcome(called["again"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("not an answer") from error
    if len(outcomes) != count:
        raise ValueError(f"expected {count} outcomes, got {len(outcomes)}")
    return Answer(outcomes, again)


def judge(
    exercise: Exercise,
    source: str,
    seed: int,
    cases: Sequence[Case],
    packed: Sequence[bytes],
    ours: Answer,
    run: Run,
    limits: Limits | None = None,
) -> Verdict:
    """The verdict on a run, given the reference's answer."""
    limits = limits or Limits()

    def verdict(
        kind: str,
        texts: tuple[Texts, Texts],
        failing: FailingCase | None = None,
        mistake: str | None = None,
        sure: bool = True,
    ) -> Verdict:
        hints = {language: exercise.hints(language) for language in LANGUAGES}
        return Verdict(
            exercise.name, kind == "passed", kind, mistake, sure, *texts,
            failing, hints, run.printed, len(cases), seed, run.seconds,
        )  # fmt: skip

    def trouble(kind: str) -> Verdict:
        return verdict(kind, message_texts(kind, limit=limits.seconds, memory=limits.memory >> 20))

    if run.trouble is not None or run.answer is None:
        return trouble(run.trouble or "stopped")
    try:
        answer = read_answer(run.answer, len(cases))
    except ValueError:
        return trouble("unreadable")
    if answer.failed is not None:
        return trouble("memory") if _is_memory(answer.failed) else verdict(*_explain_failed(answer.failed))
    if answer.missing is not None:
        return verdict("missing", message_texts("missing", name=answer.missing))

    differences = [difference(*pair) for pair in zip(ours.outcomes, answer.outcomes, strict=True)]
    wrong = [i for i, found in enumerate(differences) if found]
    same_again = difference(answer.outcomes[0], answer.again or {}) is None
    if not wrong:
        if any(outcome.get("mutated") for outcome in answer.outcomes):
            return verdict("mutated", message_texts("mutated"))
        if not same_again:
            return verdict("remembers", message_texts("remembers"))
        if exercise.must_call and not calling.calls(source) & set(exercise.must_call):
            return verdict(
                "must-call", message_texts("must-call", wanted=" / ".join(f"`{name}`" for name in exercise.must_call))
            )
        return verdict("passed", message_texts("passed", cases=len(cases)))

    first = differences[wrong[0]]
    assert first is not None
    if any("error" in outcome and _is_memory(outcome["error"]) for outcome in answer.outcomes):
        return trouble("memory")
    failing = _failing(exercise, cases[wrong[0]], first)
    mistake, sure = _named(exercise, packed, answer, wrong)
    if mistake is None and not same_again:
        return verdict("remembers", message_texts("remembers"), failing)
    if mistake is None:
        kind, *texts = explain(first)
        return verdict(kind, (texts[0], texts[1]), None if kind == "unwritten" else failing)
    more = {"en": "", "zh": ""} if sure else message_texts("partly")[1]
    message: Texts = {language: mistake.advice[language] + more[language] for language in LANGUAGES}
    return verdict("mistake", (mistake.title, message), failing, mistake.key, sure)


def _named(
    exercise: Exercise, packed: Sequence[bytes], answer: Answer, wrong: Sequence[int]
) -> tuple[Mistake | None, bool]:
    """The mistake that explains every case, or else most of the failing ones, the first among them; is it sure?"""
    best: tuple[int, Mistake | None] = (0, None)
    for mistake in exercise.mistakes:
        theirs = trusted(exercise, mistake.source, packed).outcomes
        agrees = [difference(*pair) is None for pair in zip(theirs, answer.outcomes, strict=True)]
        if all(agrees):
            return mistake, True
        # Two pieces of code may raise the same error for different reasons: a weak sign, no sign of kinship.
        explained = [i for i in wrong if agrees[i] and "value" in theirs[i]]
        if wrong[0] in explained and len(explained) > best[0]:
            best = len(explained), mistake
    return best[1], False


def _failing(exercise: Exercise, case: Case, found: Difference) -> FailingCase:
    given = format_inputs(exercise.argument_names, case.arguments)
    which = None if found.which is None else found.which + 1
    return FailingCase({"en": case.en, "zh": case.zh}, given, *format_pair(found.expected, found.yours), which)


def _explain_failed(error: dict[str, Any]) -> tuple[str, tuple[Texts, Texts]]:
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


def _sent(value: Any, uses: str) -> Any:
    if isinstance(value, np.ndarray):
        narrow = value.astype(np.float32) if uses == "torch" and value.dtype == np.float64 else value
        return Array(narrow, uses, narrow.dtype.name)
    if isinstance(value, tuple | list):
        return type(value)(_sent(item, uses) for item in value)
    if isinstance(value, dict):
        return {key: _sent(item, uses) for key, item in value.items()}
    return value
