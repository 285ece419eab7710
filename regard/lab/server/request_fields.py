"""What the endpoints share: reading what the page sends, and saying at which field something is wrong.

An endpoint is an ordinary function from the JSON object that was posted to what it answers; `post` makes a route of
it. A mistake is a `Mistake`: a field, a code that the page has words for in both languages (`error.CODE` in
text/NAME.en.json), the facts that those words need, and the same in plain English for whoever reads the JSON.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Asked = Mapping[str, Any]


class Mistake(ValueError):
    """Something wrong with one field of what was asked."""

    def __init__(self, field: str, code: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.field, self.code, self.message, self.facts = field, code, message, facts


def post(path: str, answer: Callable[[Asked], Any]) -> Route:
    """A route for what is computed at once (up to a second or so), away from the event loop."""

    async def endpoint(request: Request) -> Response:
        return as_json(await run_in_threadpool(answer, await asked(request)))

    return Route(path, endpoint, methods=["POST"])


def get(path: str, answer: Callable[[Asked], Any]) -> Route:
    """A route that is asked with nothing but its address; the path's own parameters are what was asked."""

    async def endpoint(request: Request) -> Response:
        return as_json(await run_in_threadpool(answer, {**request.query_params, **request.path_params}))

    return Route(path, endpoint, methods=["GET"])


async def asked(request: Request) -> dict[str, Any]:
    """The JSON object in the body."""
    try:
        given = json.loads(await request.body(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Mistake("", "json", f"the body must be JSON, got something else: {error}") from None
    if not isinstance(given, dict):
        raise Mistake("", "json", f"the body must be a JSON object, got {type(given).__name__}")
    return given


def as_json(answer: Any) -> Response:
    """A response as it is; text that already is JSON; or anything that can be written as strict JSON."""
    if isinstance(answer, Response):
        return answer
    if isinstance(answer, str):
        return Response(answer, media_type="application/json")
    return JSONResponse(answer)


def whole(given: Asked, field: str, default: int, least: int, most: int) -> int:
    """A whole number within bounds.

    >>> whole({"heads": 4}, "heads", 1, 1, 16)
    4
    """
    value = given.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        message = f"{field} must be a whole number from {least} to {most}, got {value!r}"
        raise Mistake(field, "whole", message, least=least, most=most)
    return value


def real(given: Asked, field: str, default: float, least: float, most: float) -> float:
    """A number within bounds."""
    value = given.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        message = f"{field} must be a number from {least:g} to {most:g}, got {value!r}"
        raise Mistake(field, "real", message, least=least, most=most)
    return float(value)


def truth(given: Asked, field: str, default: bool) -> bool:
    """true or false."""
    value = given.get(field, default)
    if not isinstance(value, bool):
        raise Mistake(field, "truth", f"{field} must be true or false, got {value!r}")
    return value


def words(given: Asked, field: str, default: str, longest: int = 2000) -> str:
    """Text of a certain length at most."""
    value = given.get(field, default)
    if not isinstance(value, str) or len(value) > longest:
        got = f"{len(value)} characters" if isinstance(value, str) else repr(value)[:80]
        raise Mistake(field, "text", f"{field} must be text of at most {longest} characters, got {got}", most=longest)
    return value


def one_of(given: Asked, field: str, default: str, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    value = given.get(field, default)
    if value not in choices:
        message = f"{field} must be one of {', '.join(choices)}, got {value!r}"
        raise Mistake(field, "choice", message, choices=", ".join(choices))
    return str(value)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
