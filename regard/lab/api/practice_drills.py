"""Drills on the page: one of a level or a kind, without end, and each step judged with the learner's own numbers."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.lab.server.learner_state import get, load_progress, post
from regard.lab.server.request_fields import Asked, Mistake, truth, whole, words

if TYPE_CHECKING:
    from regard.learn import Drill


def named(given: Asked, _: Path) -> Any:
    """The drill of this name, such as causal:3:7."""
    return _found(given).to_plain()


def another(given: Asked, file: Path) -> Any:
    """A drill that was not done yet, of this level or kind, other than the one that is there."""
    from regard.learn import DRILL_KINDS, drill

    level, kind = whole(given, "level", 1, 1, 5), words(given, "kind", "", 40) or None
    if kind is not None and kind not in DRILL_KINDS:
        choices = ", ".join(DRILL_KINDS)
        raise Mistake("kind", "choice", f"kind must be one of {choices}, got {kind!r}", choices=choices)
    done = {*load_progress(file).drills, words(given, "besides", "", 80)}
    seed = 0
    while (task := drill(level, seed, kind)).name in done:
        seed += 1
    return task.to_plain()


def checked(given: Asked, file: Path) -> Any:
    """The steps answered so far; with `end`, the drill is over and kept as it went."""
    from regard.learn.drills.drill import all_passed

    task, answers = _found(given), given.get("answers", {})
    steps = {step.name for step in task.steps}
    if not isinstance(answers, dict) or not all(name in steps and _is_answer(x) for name, x in answers.items()):
        raise Mistake("answers", "answers", "answers must map the drill's steps to what was typed in their cells")
    results = task.check(answers)
    if truth(given, "end", False):
        load_progress(file).record_drill(task, results, datetime.now(UTC))
    return {"results": [result.to_plain() for result in results], "passed": all_passed(results)}


def _is_answer(cells: Any) -> bool:
    return (
        isinstance(cells, list)
        and len(cells) <= 16
        and all(isinstance(row, list) and len(row) <= 16 for row in cells)
        and all(isinstance(cell, str) and len(cell) <= 100 for row in cells for cell in row)
    )


def _found(given: Asked) -> "Drill":
    from regard.learn import find_drill

    name = words(given, "name", "", 80)
    try:
        return find_drill(name)
    except ValueError as error:
        raise Mistake("name", "drill", str(error)) from None


routes = [
    get("/api/practice/drills/{name}", named),
    post("/api/practice/drill", another),
    post("/api/practice/drill/check", checked),
]
