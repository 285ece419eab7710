"""The application: the page, its files, and the endpoints that each view brings.

A view is found by its files alone: `static/views/NAME.js` puts it on the page, `api/NAME.py` with a list `routes`
gives it endpoints. So that two people who add two views touch no file in common.
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
from regard.lab.server.job_queue import Full, Work
from regard.lab.server.page import STATIC, page
from regard.lab.server.request_fields import Mistake
from regard.lab.server.request_guard import Guard


@dataclass(frozen=True)
class Settings:
    """How a lab is launched. `runner` is whether a learner's programs may be run."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    runner: bool = True
    loopback: bool = True
    body_limit: int = 1 << 20
    running: int = 2
    waiting: int = 16
    data: Path | None = None  # where progress is kept; the user's data folder if None
    warm: bool = True  # load torch in the background, once the first view has been served
    claims: Path | None = None  # results of claims; those of ./claims, or else those that come with regard, if None
    network: Path | None = None  # a trained board network to show; the one that comes with regard if None


def build(settings: Settings | None = None) -> Starlette:
    """The application with all views that are there.

    >>> "/api/trace" in [route.path for route in build().routes]
    True
    """
    settings = settings or Settings()
    if settings.runner and not settings.loopback:
        raise ValueError("while learners' programs are run, the lab is served at 127.0.0.1 alone; add --no-runner")
    app = Starlette(
        routes=[
            Route("/", _page),
            *_api_routes(),
            Mount("/static", _Files(directory=STATIC)),
        ],
        middleware=[
            Middleware(Guard, token=settings.token, body_limit=settings.body_limit, loopback=settings.loopback)
        ],
        exception_handlers={Mistake: _mistaken, Full: _full, HTTPException: _refused, 500: _failed},
        lifespan=_lifespan,
    )
    app.state.settings = settings
    app.state.work = Work(settings.running, settings.waiting)
    app.state.served = threading.Event()
    return app


class _Files(StaticFiles):
    """The page's own files; a browser asks each time whether they have changed, since the next launch may be newer."""

    def file_response(self, *args: object, **options: object) -> Response:
        response = super().file_response(*args, **options)  # type: ignore[arg-type]
        response.headers["cache-control"] = "no-cache"
        return response


async def _page(request: Request) -> Response:
    settings = request.app.state.settings
    return Response(
        page(settings.token, runner=settings.runner),
        media_type="text/html",
        headers={"cache-control": "no-store"},
    )


def _api_routes() -> list[BaseRoute]:
    found: list[BaseRoute] = []
    for module in sorted(pkgutil.iter_modules(api.__path__), key=lambda m: m.name):
        found += importlib.import_module(f"{api.__name__}.{module.name}").routes
    return found


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    if app.state.settings.warm:
        threading.Thread(target=_warm, args=[app.state.served], daemon=True).start()
    yield
    app.state.work.close()


def _warm(served: threading.Event) -> None:
    """Load torch when the first view has its numbers: it takes seconds, and the first view needs none of it."""
    served.wait(30)
    importlib.import_module("torch")


async def _mistaken(_: Request, error: Exception) -> Response:
    assert isinstance(error, Mistake)
    about = {"code": error.code, "field": error.field, "facts": error.facts, "message": error.message}
    return JSONResponse({"error": about}, status_code=400 if error.code == "json" else 422)


async def _full(_: Request, error: Exception) -> Response:
    assert isinstance(error, Full)
    facts = {"running": error.running, "waiting": error.waiting}
    about = {"code": "busy", "facts": facts, "message": str(error)}
    return JSONResponse({"error": about}, status_code=503, headers={"retry-after": "2"})


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": {"code": "http", "message": error.detail}}, status_code=error.status_code)


async def _failed(_: Request, error: Exception) -> Response:
    about = {"code": "failed", "message": f"{type(error).__name__}: {error}"}
    return JSONResponse({"error": about}, status_code=500)
