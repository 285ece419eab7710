"""Endpoints of all jobs: status and answer of a job, and stopping it."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


async def job(request: Request) -> Response:
    """Return the job as JSON; DELETE asks it to stop when it next reports its progress."""
    job = request.app.state.jobs.find(request.path_params["id"])
    if job is None:
        message = "the job does not exist, or it ended so long ago that its answer was dropped"
        return JSONResponse({"error": {"code": "gone", "message": message}}, status_code=404)
    if request.method == "DELETE":
        job.stop_requested.set()
    return JSONResponse(job.as_json())


routes = [Route("/api/jobs/{id}", job, methods=["GET", "DELETE"])]
