"""Endpoints of the learning path: which stages the learner has completed, and recording one of them."""

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regard.lab.server.learner_state import learner_file, load_progress
from regard.lab.server.request_fields import Fields, choice
from regard.lab.server.routes import get, post


def stages(_: Fields, file: Path, first_answer: threading.Event) -> dict[str, Any]:
    """Return the stages of the path in order; the page asks after its first view is drawn."""
    from regard.learn import learning_path

    answer = {"stages": [{"name": one.name, "done": one.done} for one in learning_path(load_progress(file))]}
    first_answer.set()
    return answer


def record(fields: Fields, file: Path, first_answer: threading.Event) -> dict[str, Any]:
    """Record a stage that the learner has completed on the page, and return all stages."""
    from regard.learn.progress import RECORDED_STAGES

    stage = choice(fields, "stage", "", RECORDED_STAGES)
    load_progress(file).record_stage(stage, datetime.now(UTC))
    return stages(fields, file, first_answer)


CONTEXT = (learner_file, lambda request: request.app.state.first_answer)

routes = [get("/api/path", stages, *CONTEXT), post("/api/path", record, *CONTEXT)]
