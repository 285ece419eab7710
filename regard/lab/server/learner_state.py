"""What the endpoints of the course share: the learner's file, and routes whose functions are given it.

The file is the one that `regard learn` keeps, so the page and the terminal agree. It is read anew for every question
and written by one at a time (regard.learn.State), so either may be used while the other is open.
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
    from regard.learn import Progress, State

Answer = Callable[[Asked, Path], Any]


def file_of(request: Request) -> Path:
    """Where the learner's progress is kept."""
    from regard.learn import home

    return (request.app.state.settings.data or home()) / "learn.json"


def state_in(file: Path) -> "State":
    """What the learner has done."""
    from regard.learn import State

    return State.load(file)


def progress_in(file: Path) -> "Progress":
    """The same for the exercises alone; a file that cannot be read is kept aside first."""
    from regard.learn import Progress

    state_in(file)
    return Progress(file)


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
