"""The numbers of the view Cost: operations and bytes against length, predicted by `regard.cost`, and measured here."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from regard.lab.server.job_queue import Job
from regard.lab.server.request_fields import Asked, Mistake, asked, one_of, post, truth, whole

LENGTHS = tuple(2**n for n in range(6, 16))  # 64 … 32,768
VARIANTS = ("written", "full", "window", "grouped", "cached", "recurrent")
DTYPES = {"float32": 4, "bfloat16": 2, "float64": 8}
MOST_OPERATIONS, MOST_BYTES = 12e9, 600 << 20  # of one call that is measured


def predicted(given: Asked) -> Any:
    """Every variant at every length, and the figures of the document this work starts from."""
    options = _options(given)
    return {
        "lengths": LENGTHS,
        "variants": {name: [_point(name, length, options) for length in LENGTHS] for name in VARIANTS},
        "document": _document(),
    }


async def measure(request: Request) -> Response:
    """The same, run on this machine; a job, whose progress holds the points so far."""
    options = _options(await asked(request))
    job = request.app.state.work.start(lambda job: _measured(job, options))
    return JSONResponse({"job": job.said()})


def _measured(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    todo = [(name, length) for length in LENGTHS for name in VARIANTS if _is_small(name, length, options)]
    points: list[dict[str, Any]] = []
    for done, (name, length) in enumerate(todo):
        job.tell(done=done, of=len(todo), variant=name, seq=length, points=list(points))
        found = _call(name, length, options).measure()
        one = getattr(found, "measurements", (found,))[0]
        held = _point(name, length, options)["cache"]
        points.append(
            {
                "variant": name,
                "seq": length,
                "operations": one.operations,
                "predicted_operations": one.predicted_operations,
                "bytes": one.peak + held,
                "predicted_bytes": one.predicted_peak + held,
                "seconds": one.seconds,
            }
        )
    return {"points": points}


def _is_small(name: str, length: int, options: dict[str, Any]) -> bool:
    """Whether it is run on request: a second or so, and well within memory. A GRU takes a step a token."""
    point = _point(name, length, options)
    if name == "recurrent" and (options["dtype"] != "float32" or options["backward"]):
        return False  # only forward in float32 is predicted
    return point["operations"] <= MOST_OPERATIONS and point["bytes"] <= MOST_BYTES


def _point(name: str, length: int, options: dict[str, Any]) -> dict[str, int]:
    """Operations and bytes: those alive at the fullest moment of the call, and the cache that is held between calls."""
    found = _call(name, length, options)
    if name == "recurrent":
        return {"operations": found.operations, "bytes": found.peak, "cache": 0}
    one = found.estimates[0]
    cache = one.bytes["KV cache"]
    return {"operations": one.total.total, "bytes": one.peak + cache, "cache": cache}


def _call(name: str, length: int, options: dict[str, Any]) -> Any:
    """What `regard.cost` says of a variant."""
    from regard.costs import Recurrent, cost

    if name == "recurrent":
        return Recurrent(length, options["d_model"], options["batch"])
    kv_heads, window = options["kv_heads"], options["window"]
    common = {key: options[key] for key in ("d_model", "heads", "batch", "dtype", "backward")}
    special: dict[str, Callable[[], dict[str, Any]]] = {
        "written": lambda: {"materialised": True},
        "full": dict,
        "window": lambda: {"mask": f"causal & window(keys={window})"},
        "grouped": lambda: {"kv_heads": kv_heads},
        "cached": lambda: {"cached": True, "kv_heads": kv_heads, "backward": False},
    }
    return cost(seq=length, **{**common, **special[name]()})


def _options(given: Asked) -> dict[str, Any]:
    d_model, heads = whole(given, "d_model", 512, 8, 8192), whole(given, "heads", 8, 1, 128)
    kv_heads = whole(given, "kv_heads", 2, 1, 128)
    if d_model % heads:
        message = f"heads must divide the width, got {heads} heads and a width of {d_model}"
        raise Mistake("heads", "heads-divide", message, heads=heads, width=d_model)
    if heads % kv_heads:
        message = f"key/value heads must divide the heads, got {kv_heads} and {heads}"
        raise Mistake("kv_heads", "groups-divide", message, heads=heads, kv_heads=kv_heads)
    return {
        "d_model": d_model,
        "heads": heads,
        "kv_heads": kv_heads,
        "window": whole(given, "window", 256, 1, 32768),
        "batch": whole(given, "batch", 1, 1, 64),
        "dtype": one_of(given, "dtype", "float32", tuple(DTYPES)),
        "backward": truth(given, "backward", False),
    }


def _document() -> list[dict[str, int]]:
    """Its 5, 32 and 320 MB, by its own formula, and what they leave out."""
    from regard.claims.tasks.document_costs import corrected

    return [asdict(corrected(length)) for length in (512, 2048, 8192)]


routes = [post("/api/cost", predicted), Route("/api/cost/measure", measure, methods=["POST"])]
