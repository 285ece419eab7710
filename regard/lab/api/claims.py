"""The view Claims: every claim of `regard.claims` with its stored result, and a small run of one on request.

Verdicts are computed by the claim's own rule from the rows of its file each time they are asked for. A small run is the
command that the page shows, in a process of its own, so that its seeds and threads are its own and it can be stopped.
"""

import math
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.lab.server.job_queue import Job
from regard.lab.server.request_fields import as_json, asked, one_of

if TYPE_CHECKING:
    from regard.claims import Claim, Conclusion, Figure, Result

TICK = 0.1  # seconds between two looks at how far a run is


async def every(request: Request) -> Response:
    """All claims with what is known of each, in the order in which they are told."""
    folder = request.app.state.settings.claims
    return as_json(await request.app.state.work.run(lambda: {"claims": known(folder)}))


async def run(request: Request) -> Response:
    """Start a small run of one claim: a job, whose answer is the claim with that run as its result."""
    from regard.claims import NAMES

    name = one_of(await asked(request), "claim", NAMES[0], NAMES)
    return as_json({"job": request.app.state.work.start(lambda job: tried(name, job), lane="claims").said()})


def known(folder: Path | None = None) -> list[dict[str, Any]]:
    """All claims, with the results of this folder; with those of ./claims, or else the shipped, if none is given.

    >>> known(Path("nowhere"))[1]["name"], known(Path("nowhere"))[1]["state"]
    ('scale', 'not-run')
    """
    from regard.claims import claims

    return [_told(one, folder) for one in claims()]


def tried(name: str, job: Job) -> dict[str, Any]:
    """Run a claim at its tiny size and tell of it as of a stored one; nothing is kept."""
    from regard.claims import claim_named, count, find

    one = claim_named(name)
    of = count(one, "tiny")
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "said")
        command = [sys.executable, "-m", "regard", "claims", "run", name, "--tiny", "--out", folder]
        with said.open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            while process.poll() is None:
                begun = find(name, folder)
                job.tell(done=len(begun.parts) if begun else 0, of=of)
                time.sleep(TICK)
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            last = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise RuntimeError(f"the run of {name} ended with {process.returncode}: {' '.join(last)}")
        return _told(one, Path(folder))


def _told(one: "Claim", folder: Path | None) -> dict[str, Any]:
    """What is said, done and known, as JSON."""
    from regard.claims import SHIPPED, find, stored_conclusion

    about = {
        "name": one.name,
        "title": one.title,
        "says": one.statement,
        "source": one.source,
        "experiment": one.experiment,
        "rule": one.rule,
        "timed": one.timed,
        "command": f"regard claims run {one.name}",
    }
    try:
        judgement, result = stored_conclusion(one, folder)
        if result is None:
            return {**about, "state": "not-run"}
        about["result"] = {**_measured(one, result), "shipped": folder is None and result == find(one.name, SHIPPED)}
        if judgement is None:
            return {**about, "state": "unfinished"}
        return {**about, "state": "judged", **_judged(judgement), "chart": _finite(asdict(one.draw(result.rows)))}
    except (ValueError, OSError) as error:  # one file that cannot be read leaves the others as they are
        return {**about, "state": "unreadable", "why": str(error)}
    except LookupError as error:
        return {**about, "state": "unreadable", "why": f"the result of {one.name} is of another version: no {error}"}


def _judged(judgement: "Conclusion") -> dict[str, Any]:
    return {
        "verdict": judgement.verdict.replace(" ", "-"),
        "sentence": judgement.sentence,
        "figures": [_figure(one) for one in judgement.figures],
        "notes": judgement.notes,
    }


def _figure(one: "Figure") -> dict[str, Any]:
    """The number for the eye as the terminal has it, and the numbers themselves."""
    value, _, between = str(one).partition(" (")
    numbers = _finite({"value": one.value, "low": one.low, "high": one.high})
    return {"name": one.name, "text": value, "between": between.rstrip(")"), "unit": one.unit, **numbers}


def _measured(one: "Claim", result: "Result") -> dict[str, Any]:
    from regard.claims import is_timing_unreliable

    return {
        "size": result.size,
        "seeds": result.seeds,
        "parts": len(result.parts),
        "wanted": result.expected_parts,
        "seconds": result.seconds,
        "load": result.load,
        "machine": result.machine,
        "command": result.command,
        "noisy": is_timing_unreliable(one, result),
    }


def _finite(value: Any) -> Any:
    """The same with null for what JSON has no number for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


routes = [Route("/api/claims", every, methods=["GET"]), Route("/api/claims/run", run, methods=["POST"])]
