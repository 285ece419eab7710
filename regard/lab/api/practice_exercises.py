"""Endpoints of the exercises: statement, saved code, graded runs, hints one by one, and the solution."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.lab.server.job_queue import Job
from regard.lab.server.learner_state import learner_file, load_progress
from regard.lab.server.request_fields import FieldError, Fields, choice, text
from regard.lab.server.routes import get, post, post_job, setting

if TYPE_CHECKING:
    from regard.learn import Exercise

LONGEST = 64 << 10  # largest number of characters of code
VERDICTS: dict[tuple[Path, str], dict[str, Any]] = {}  # the last verdict on each exercise, shown when it is reopened


def exercise(fields: Fields, file: Path) -> Any:
    """Return an exercise with the learner's code, hints and last verdict."""
    from regard.languages import LANGUAGES

    task = _exercise(fields)
    record = load_progress(file).exercise_record(task)
    hints = {language: task.hints(language) for language in LANGUAGES}
    shown = min(record.hints, len(hints["en"]))
    return {
        "name": task.name,
        "statement": {language: task.statement(language) for language in LANGUAGES},
        "starter": task.starter,
        "code": record.code,
        "uses": task.uses,
        "passed": record.passed,
        "attempts": record.attempts,
        "hints": {language: texts[:shown] for language, texts in hints.items()},
        "hint_count": len(hints["en"]),
        "verdict": VERDICTS.get((file, task.name)),
    }


def run(fields: Fields, file: Path, runner: bool) -> Callable[[Job], Any]:
    """Return the job that grades the learner's code; its answer is the verdict."""
    from regard.learn import grade

    if not runner:
        raise FieldError("source", "runner-off", "this lab was started with --no-runner and does not run programs")
    exercise, source = _exercise(fields), text(fields, "source", "", LONGEST)

    def work(_: Job) -> dict[str, Any]:
        verdict = grade(exercise, source)
        progress = load_progress(file)
        progress.record_code(exercise, source)
        progress.record_attempt(exercise, verdict)
        content = verdict.to_json()
        del content["hints"]  # hints are shown one by one, on request
        VERDICTS[file, exercise.name] = content
        return content

    return work


def save_code(fields: Fields, file: Path) -> Any:
    """Store the learner's code."""
    load_progress(file).record_code(_exercise(fields), text(fields, "source", "", LONGEST))
    return {"kept": True}


def hint(fields: Fields, file: Path) -> Any:
    """Reveal one more hint and return the exercise."""
    task, progress = _exercise(fields), load_progress(file)
    if progress.exercise_record(task).hints < len(task.hints("en")):
        progress.record_hint(task)
    return exercise(fields, file)


def solution(fields: Fields, file: Path) -> Any:
    """Return all solutions. Before the exercise is passed, the page asks for confirmation and then requests them."""
    exercise = _exercise(fields)
    return {
        "ours": exercise.reference,
        "others": exercise.correct,
        "passed": load_progress(file).exercise_record(exercise).passed is not None,
    }


def _exercise(fields: Fields) -> "Exercise":
    from regard.learn import exercises, find_exercise

    return find_exercise(choice(fields, "exercise", "", tuple(exercise.name for exercise in exercises())))


routes = [
    get("/api/practice/exercises/{exercise}", exercise, learner_file),
    post_job("/api/practice/run", run, learner_file, setting("runner")),
    post("/api/practice/code", save_code, learner_file),
    post("/api/practice/hint", hint, learner_file),
    post("/api/practice/solution", solution, learner_file),
]
