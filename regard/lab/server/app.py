"""The Starlette application: page, static files, and the endpoints of all views.

Views are discovered by their files: `static/views/NAME.js` adds a view to the page, and every module in `api/` adds the
routes in its list `routes`. Adding a view changes no existing file.
"""

import importlib
import pkgutil
import secrets
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from regard.lab import api
from regard.lab.server.job_queue import JobQueue, QueueFull
from regard.lab.server.live_page import PICTURES, STATIC, render_page
from regard.lab.server.request_fields import FieldError
from regard.lab.server.request_guard import Guard


@dataclass(frozen=True)
class Settings:
    """Options of a lab.

    token               access key, which every request must contain; random by default
    runner              run and grade the programs that learners write
    loopback            whether the lab is only reachable from this machine
    body_limit          largest number of bytes of a request
    running, waiting    number of jobs that run, and that wait, at a time
    data                folder of the learner's progress; None means the user's data folder
    warm                import torch and the claims in the background after the first view has been served
    claims              folder with results of claims; None means ./claims, or else the results in the package
    network             folder of the board network to show; None means the network in the package

    >>> Settings(runner=False).runner
    False
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    runner: bool = True
    loopback: bool = True
    body_limit: int = 1 << 20
    running: int = 2
    waiting: int = 16
    data: Path | None = None
    warm: bool = True
    claims: Path | None = None
    network: Path | None = None


def build(settings: Settings | None = None) -> Starlette:
    """Return the application with all views.

    settings    options of the lab; the defaults of `Settings` if None

    >>> "/api/trace" in [route.path for route in build().routes]
    True
    """
    settings = settings or Settings()
    if settings.runner and not settings.loopback:
        raise ValueError("a lab that runs learners' programs can only be served at 127.0.0.1; add --no-runner")
    app = Starlette(
        routes=[
            Route("/", _page),
            *_api_routes(),
            Mount("/static/pictures", _Files(directory=PICTURES)),
            Mount("/static", _Files(directory=STATIC)),
        ],
        middleware=[
            Middleware(Guard, token=settings.token, body_limit=settings.body_limit, loopback=settings.loopback)
        ],
        exception_handlers={
            FieldError: _field_error,
            QueueFull: _queue_full,
            HTTPException: _http_error,
            500: _failure,
        },
        lifespan=_lifespan,
    )
    app.state.settings = settings
    app.state.jobs = JobQueue(settings.running, settings.waiting)
    app.state.first_answer = threading.Event()
    return app


class _Files(StaticFiles):
    """Static files that the browser revalidates each time, since regard may be updated between launches."""

    def file_response(self, *args: object, **options: object) -> Response:
        response = super().file_response(*args, **options)  # type: ignore[arg-type]
        response.headers["cache-control"] = "no-cache"
        return response


async def _page(request: Request) -> Response:
    settings = request.app.state.settings
    html = render_page(settings.token, runner=settings.runner)
    return Response(html, media_type="text/html", headers={"cache-control": "no-store"})


def _api_routes() -> list[BaseRoute]:
    names = sorted(module.name for module in pkgutil.iter_modules(api.__path__))
    return [route for name in names for route in importlib.import_module(f"{api.__name__}.{name}").routes]


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    closed = threading.Event()
    if app.state.settings.warm:
        # Not a daemon: a process that ends inside the import of a C++ library may crash.
        work = (app.state.first_answer, closed)
        threading.Thread(target=_import_in_background, args=work, daemon=False).start()
    yield
    closed.set()
    app.state.first_answer.set()
    app.state.jobs.close()


def _import_in_background(first_answer: threading.Event, closed: threading.Event) -> None:
    """Import torch and the claims after the first view has its data, which needs neither: each import takes seconds."""
    first_answer.wait(30)
    if not closed.is_set():
        importlib.import_module("torch")
    if not closed.is_set():
        importlib.import_module("regard.claims.registry").claims()


async def _field_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, FieldError)
    content = {"code": error.code, "field": error.field, "facts": error.facts, "message": error.message}
    return JSONResponse({"error": content}, status_code=400 if error.code == "json" else 422)


async def _queue_full(_: Request, error: Exception) -> Response:
    assert isinstance(error, QueueFull)
    facts = {"running": error.running, "waiting": error.waiting}
    content = {"code": "busy", "facts": facts, "message": str(error)}
    return JSONResponse({"error": content}, status_code=503, headers={"retry-after": "2"})


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": {"code": "http", "message": error.detail}}, status_code=error.status_code)


async def _failure(_: Request, error: Exception) -> Response:
    """Answer with status 500; Starlette raises the error again afterwards, and uvicorn logs its traceback."""
    content = {"code": "failed", "message": f"{type(error).__name__}: {error}"}
    return JSONResponse({"error": content}, status_code=500)
