"""What the endpoints of the course share: the learner's file, and routes whose functions are given it.

The file is the one that `regard learn` keeps, so the page and the terminal agree. It is read anew for every question
and written by one at a time (regard.learn.Progress), so either may be used while the other is open.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.lab.server.request_fields import Asked, as_json, asked

if TYPE_CHECKING:
    from regard.learn import Progress

Answer = Callable[[Asked, Path], Any]


def file_of(request: Request) -> Path:
    """Where the learner's progress is kept."""
    from regard.learn.progress import data_folder

    return (request.app.state.settings.data or data_folder()) / "learn.json"


def load_progress(file: Path) -> "Progress":
    """Read the learner's progress."""
    from regard.learn import Progress

    return Progress.load(file)


def both(words: Mapping[Any, str]) -> dict[str, str]:
    """Words in both languages as JSON: the page shows one and keeps the other for when the language is changed."""
    return {str(language): text for language, text in words.items()}


def get(path: str, answer: Answer) -> Route:
    """Asked with an address alone."""

    async def endpoint(request: Request) -> Response:
        given = {**request.query_params, **request.path_params}
        return as_json(await run_in_threadpool(answer, given, file_of(request)))

    return Route(path, endpoint, methods=["GET"])


def post(path: str, answer: Answer) -> Route:
    """Asked with a JSON object."""

    async def endpoint(request: Request) -> Response:
        return as_json(await run_in_threadpool(answer, await asked(request), file_of(request)))

    return Route(path, endpoint, methods=["POST"])
