"""Exercises on the page: statement, code that is kept, runs in the bounded queue, hints one by one, the solution."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from regard.lab.server.learner_state import file_of, get, load_progress, post
from regard.lab.server.request_fields import Asked, Mistake, asked, words

if TYPE_CHECKING:
    from regard.learn import Exercise

LONGEST = 64 << 10  # characters of code
LAST: dict[tuple[Path, str], dict[str, Any]] = {}  # the last verdict on each exercise, for a page that is opened again


def shown(given: Asked, file: Path) -> Any:
    """An exercise with everything that the learner has of it: code, hints taken, the last verdict."""
    from regard.languages import LANGUAGES

    exercise = _found(given)
    record = load_progress(file).exercise_record(exercise)
    hints = {language: exercise.hints(language) for language in LANGUAGES}
    taken = min(record.hints, len(hints["en"]))
    return {
        "name": exercise.name,
        "statement": {language: exercise.statement(language) for language in LANGUAGES},
        "starter": exercise.starter,
        "code": record.code,
        "uses": exercise.uses,
        "passed": record.passed,
        "attempts": record.attempts,
        "hints": {language: texts[:taken] for language, texts in hints.items()},
        "hint_count": len(hints["en"]),
        "verdict": LAST.get((file, exercise.name)),
    }


async def run(request: Request) -> Response:
    """Grade the code when its turn has come; a job, whose answer is the verdict."""
    from regard.learn import grade

    if not request.app.state.settings.runner:
        raise Mistake("source", "runner-off", "this lab was started with --no-runner and runs no programs")
    given, file = await asked(request), file_of(request)
    exercise, source = _found(given), words(given, "source", "", LONGEST)

    def graded() -> dict[str, Any]:
        verdict = grade(exercise, source)
        progress = load_progress(file)
        progress.record_code(exercise, source)
        progress.record_attempt(exercise, verdict)
        said = verdict.to_json()
        del said["hints"]  # those are given one by one
        LAST[file, exercise.name] = said
        return said

    job = request.app.state.work.start(lambda job: graded())
    return JSONResponse({"job": job.said()})


def keep(given: Asked, file: Path) -> Any:
    """Keep the code as it is so far."""
    load_progress(file).record_code(_found(given), words(given, "source", "", LONGEST))
    return {"kept": True}


def hint(given: Asked, file: Path) -> Any:
    """One hint more."""
    exercise, progress = _found(given), load_progress(file)
    if progress.exercise_record(exercise).hints < len(exercise.hints("en")):
        progress.record_hint(exercise)
    return shown(given, file)


def solution(given: Asked, file: Path) -> Any:
    """Our solution and other right ways; the page asks first when the exercise is not passed."""
    exercise = _found(given)
    return {
        "ours": exercise.reference,
        "others": exercise.correct,
        "passed": load_progress(file).exercise_record(exercise).passed is not None,
    }


def _found(given: Asked) -> "Exercise":
    from regard.learn import exercises, find_exercise

    name = given.get("exercise")
    if not isinstance(name, str) or name not in {exercise.name for exercise in exercises()}:
        choices = ", ".join(exercise.name for exercise in exercises())
        raise Mistake(
            "exercise", "choice", f"exercise must be one of {choices}, got {str(name)[:80]!r}", choices=choices
        )
    return find_exercise(name)


routes = [
    get("/api/practice/exercises/{exercise}", shown),
    Route("/api/practice/run", run, methods=["POST"]),
    post("/api/practice/code", keep),
    post("/api/practice/hint", hint),
    post("/api/practice/solution", solution),
]
