"""What has become of a job that a view started, and how to stop it."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from regard.lab.server.job_queue import Job


async def show(request: Request) -> Response:
    """How far the job is, and its answer when it has one."""
    job = _find(request)
    return JSONResponse(job.said()) if job else _gone()


async def stop(request: Request) -> Response:
    """Stop the job at the next moment when it says how far it is."""
    job = _find(request)
    if job is None:
        return _gone()
    job.stopping.set()
    return JSONResponse(job.said())


def _find(request: Request) -> Job | None:
    return request.app.state.work.find(request.path_params["id"])


def _gone() -> Response:
    return JSONResponse({"error": {"code": "gone", "message": "no such job, or too long ago"}}, status_code=404)


routes = [Route("/api/jobs/{id}", show, methods=["GET"]), Route("/api/jobs/{id}", stop, methods=["DELETE"])]
