"""Routes of the API: each turns an ordinary function of the request's fields into an HTTP endpoint.

    get(path, answer)        fields come from the query string and the path
    post(path, answer)       fields are the posted JSON object
    post_job(path, prepare)  `prepare` checks the fields and returns the work of a job, a function of the `Job`

Functions run in a thread. With `queued=True` they take a place in the job queue, for work of more than a second. A
function that needs more than the fields gets it from `context` functions: each is called with the request, and its
result is the next argument, for example `get("/api/practice", overview, learner_file)`.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from regard.lab.server.request_fields import FieldError

Context = Callable[[Request], Any]


def get(path: str, answer: Callable[..., Any], *context: Context, queued: bool = False) -> Route:
    """Return a GET route for `answer(fields, *context)`."""

    async def endpoint(request: Request) -> Response:
        fields = {**request.query_params, **request.path_params}
        return await _respond(request, partial(answer, fields, *(value(request) for value in context)), queued)

    return Route(path, endpoint, methods=["GET"])


def post(path: str, answer: Callable[..., Any], *context: Context, queued: bool = False) -> Route:
    """Return a POST route for `answer(fields, *context)`."""

    async def endpoint(request: Request) -> Response:
        fields = await json_body(request)
        return await _respond(request, partial(answer, fields, *(value(request) for value in context)), queued)

    return Route(path, endpoint, methods=["POST"])


def post_job(path: str, prepare: Callable[..., Any], *context: Context, lane: str | None = None) -> Route:
    """Return a POST route that starts the job returned by `prepare(fields, *context)`; the answer is its status."""

    async def endpoint(request: Request) -> Response:
        fields = await json_body(request)
        work = await run_in_threadpool(prepare, fields, *(value(request) for value in context))
        return JSONResponse({"job": request.app.state.jobs.start(work, lane=lane).as_json()})

    return Route(path, endpoint, methods=["POST"])


def setting(name: str) -> Context:
    """Return the context that passes one of the lab's `Settings` to a function."""
    return lambda request: getattr(request.app.state.settings, name)


async def json_body(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of the request."""
    try:
        fields = json.loads(await request.body(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FieldError("", "json", f"the body must be a JSON object, but it cannot be parsed: {error}") from None
    if not isinstance(fields, dict):
        raise FieldError("", "json", f"the body must be a JSON object, got {type(fields).__name__}")
    return fields


async def _respond(request: Request, call: Callable[[], Any], queued: bool) -> Response:
    """Run the call and return its response: a Response as it is, a string as JSON text, anything else as JSON."""
    answer = await (request.app.state.jobs.run(call) if queued else run_in_threadpool(call))
    if isinstance(answer, Response):
        return answer
    return Response(answer, media_type="application/json") if isinstance(answer, str) else JSONResponse(answer)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"numbers must be finite, got {name}, which is not valid JSON")
