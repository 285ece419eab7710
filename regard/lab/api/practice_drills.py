"""Endpoints of the drills: a new drill of a level or kind, and checking each step with the learner's own numbers."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.lab.server.learner_state import learner_file, load_progress
from regard.lab.server.request_fields import FieldError, Fields, boolean, choice, integer, text
from regard.lab.server.routes import get, post

if TYPE_CHECKING:
    from regard.learn import Drill


def new_drill(fields: Fields, file: Path) -> Any:
    """Return a drill of this level or kind that the learner has not done and that is not the one on the page."""
    from regard.learn import DRILL_KINDS, drill

    level, kind = integer(fields, "level", 1, 1, 5), choice(fields, "kind", "", ("", *DRILL_KINDS)) or None
    done = {*load_progress(file).drills, text(fields, "besides", "", 80)}
    seed = 0
    while (task := drill(level, seed, kind)).name in done:
        seed += 1
    return task.to_plain()


def check(fields: Fields, file: Path) -> Any:
    """Return the result of each step answered so far; with `end`, the drill is finished and recorded."""
    from regard.learn.drills.drill import all_passed

    task, answers = _drill(fields), fields.get("answers", {})
    steps = {step.name for step in task.steps}
    if not isinstance(answers, dict) or not all(name in steps and _is_answer(x) for name, x in answers.items()):
        message = "answers must map steps of the drill to the texts typed into their cells"
        raise FieldError("answers", "answers", message)
    results = task.check(answers)
    if boolean(fields, "end", False):
        load_progress(file).record_drill(task, results, datetime.now(UTC))
    return {"results": [result.to_plain() for result in results], "passed": all_passed(results)}


def _is_answer(cells: Any) -> bool:
    return (
        isinstance(cells, list)
        and len(cells) <= 16
        and all(isinstance(row, list) and len(row) <= 16 for row in cells)
        and all(isinstance(cell, str) and len(cell) <= 100 for row in cells for cell in row)
    )


def _drill(fields: Fields) -> "Drill":
    from regard.learn import find_drill

    name = text(fields, "name", "", 80)
    try:
        return find_drill(name)
    except ValueError as error:
        raise FieldError("name", "drill", str(error)) from None


routes = [
    get("/api/practice/drills/{name}", lambda fields: _drill(fields).to_plain()),
    post("/api/practice/drill", new_drill, learner_file),
    post("/api/practice/drill/check", check, learner_file),
]
