"""Endpoints of the view Claims: all claims of `regard.claims` with their stored results, and a small run of one.

Verdicts are computed from the stored rows by the claim's own rule at every request. A small run executes the command
that the page shows, in a process of its own, so that its seeds and threads are independent and it can be stopped.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.lab.server.job_queue import Job
from regard.lab.server.request_fields import Fields, choice
from regard.lab.server.routes import get, post_job, setting

if TYPE_CHECKING:
    from regard.claims import Claim
    from regard.claims.claim import Figure, Finding

POLL_SECONDS = 0.1


def all_claims(_: Fields, folder: Path | None = None) -> dict[str, Any]:
    """Return all claims with their stored results, in the order of `regard.claims`.

    >>> claim = all_claims({}, Path("nowhere"))["claims"][0]
    >>> claim["name"], claim["state"]
    ('linear-last-dim', 'not-run')
    """
    from regard.claims import claims

    return {"claims": [_as_json(claim, folder) for claim in claims()]}


def small_run(fields: Fields) -> Callable[[Job], Any]:
    """Return the job that runs one claim at its tiny size; its answer is the claim with the result of that run."""
    from regard.claims import NAMES

    name = choice(fields, "claim", NAMES[0], NAMES)
    return lambda job: run_claim(name, job)


def run_claim(name: str, job: Job) -> dict[str, Any]:
    """Run a claim at its tiny size and return it as JSON like `all_claims` does; the result is not stored."""
    from regard.claims import claim_named, count, find

    claim = claim_named(name)
    total = count(claim, "tiny")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        command = [sys.executable, "-m", "regard", "claims", "run", name, "--tiny", "--out", folder]
        with output.open("wb") as stream:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
        try:
            while process.poll() is None:
                partial_result = find(name, folder)
                job.report(done=len(partial_result.parts) if partial_result else 0, of=total)
                time.sleep(POLL_SECONDS)
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            printed = output.read_text(encoding="utf-8", errors="replace").strip()
            last_line = printed.rpartition("\n")[2]
            error = RuntimeError(f"the run of {name} ended with exit code {process.returncode}: {last_line}")
            error.add_note(printed)  # the terminal of the lab shows the whole output
            raise error
        return _as_json(claim, Path(folder))


def _as_json(claim: "Claim", folder: Path | None) -> dict[str, Any]:
    """Return a claim, its experiment, rule, result and verdict as JSON."""
    from regard.claims import SHIPPED, find
    from regard.claims.result import stored_conclusion

    content = {name: getattr(claim, name) for name in ("name", "title", "source", "experiment", "rule", "timed")}
    content |= {"says": claim.statement, "command": f"regard claims run {claim.name}"}
    try:
        conclusion, result = stored_conclusion(claim, folder)
        if result is None:
            return {**content, "state": "not-run"}
        same_names = ("size", "seeds", "seconds", "load", "machine", "command")
        content["result"] = {name: getattr(result, name) for name in same_names} | {
            "parts": len(result.parts),
            "wanted": result.expected_parts,
            "shipped": folder is None and result == find(claim.name, SHIPPED),
        }
        if conclusion is None:
            return {**content, "state": "unfinished"}
        return {
            **content,
            "state": "judged",
            "verdict": conclusion.verdict.replace(" ", "-"),
            "words": conclusion.verdict_in_words,
            "effect": None if conclusion.effect is None else _figure(conclusion.effect),
            "findings": [_finding(one) for one in conclusion.findings],
            "sentence": conclusion.sentence,
            "figures": [_figure(one) for one in conclusion.figures],
            "notes": conclusion.notes,
            "chart": _finite(asdict(claim.draw(result.rows))),
        }
    except (ValueError, OSError) as error:  # an unreadable file must not hide the other claims
        reason = str(error)
    except LookupError as error:
        reason = f"the result of {claim.name} was written by another version: it has no {error}"
    return {**content, "state": "unreadable", "why": reason}


def _finding(one: "Finding") -> dict[str, Any]:
    """Return a statement with its answer, effect, threshold as text, and the number of seeds that decide it."""
    return {
        "name": one.name,
        "answer": one.answer,
        "effect": None if one.effect is None else _figure(one.effect),
        "threshold": one.threshold_text,
        "seeds": one.seeds,
        "confidence": one.confidence,
    }


def _figure(one: "Figure") -> dict[str, Any]:
    """Return a figure as text, formatted as in the terminal, and as numbers."""
    value, _, between = str(one).partition(" (")
    numbers = _finite({"value": one.value, "low": one.low, "high": one.high})
    return {"name": one.name, "text": value, "between": between.rstrip(")"), "unit": one.unit, **numbers}


def _finite(value: Any) -> Any:
    from regard.claims.result import finite

    return finite(value, lambda number: number)


routes = [
    get("/api/claims", all_claims, setting("claims"), queued=True),
    post_job("/api/claims/run", small_run, lane="claims"),
]
