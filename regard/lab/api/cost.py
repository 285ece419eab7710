"""Endpoints of the view Cost: operations and bytes by length, predicted by `regard.cost` and measured here."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from regard.lab.server.job_queue import Job
from regard.lab.server.request_fields import FieldError, Fields, boolean, choice, integer
from regard.lab.server.routes import post, post_job

LENGTHS = tuple(2**n for n in range(6, 16))  # 64 … 32,768
VARIANTS = ("written", "full", "window", "grouped", "cached", "recurrent")
DTYPES = {"float32": 4, "bfloat16": 2, "float64": 8}
MOST_OPERATIONS, MOST_BYTES = 12e9, 600 << 20  # largest operations and bytes of a call that is measured


def predict(fields: Fields) -> dict[str, Any]:
    """Return the predicted cost of every variant at every length, and corrected figures of a course document."""
    from regard.claims.tasks.document_costs import corrected

    options = _options(fields)
    return {
        "lengths": LENGTHS,
        "variants": {name: [_point(name, length, options) for length in LENGTHS] for name in VARIANTS},
        "document": [asdict(corrected(length)) for length in (512, 2048, 8192)],  # the document's 5, 32 and 320 MB
    }


def measure(fields: Fields) -> Callable[[Job], Any]:
    """Return the job that measures the variants on this machine; its progress contains the points measured so far."""
    options = _options(fields)
    return lambda job: _measure(job, options)


def _measure(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    todo = [(name, length) for length in LENGTHS for name in VARIANTS if _is_small(name, length, options)]
    points: list[dict[str, Any]] = []
    for done, (name, length) in enumerate(todo):
        job.report(done=done, of=len(todo), variant=name, seq=length, points=list(points))
        result = _call(name, length, options).measure()
        measurement = getattr(result, "measurements", (result,))[0]
        cache = _point(name, length, options)["cache"]
        points.append(
            {
                "variant": name,
                "seq": length,
                "operations": measurement.operations,
                "predicted_operations": measurement.predicted_operations,
                "bytes": measurement.peak + cache,
                "predicted_bytes": measurement.predicted_peak + cache,
                "seconds": measurement.seconds,
            }
        )
    return {"points": points}


def _is_small(name: str, length: int, options: dict[str, Any]) -> bool:
    """Return whether the call can be measured: it takes about a second at most and fits in memory."""
    point = _point(name, length, options)
    if name == "recurrent" and (options["dtype"] != "float32" or options["backward"]):
        return False  # only the forward pass in float32 is predicted
    return point["operations"] <= MOST_OPERATIONS and point["bytes"] <= MOST_BYTES


def _point(name: str, length: int, options: dict[str, Any]) -> dict[str, int]:
    """Return operations and bytes: the peak of the call plus the KV cache, which stays allocated between calls."""
    cost = _call(name, length, options)
    if name == "recurrent":
        return {"operations": cost.operations, "bytes": cost.peak, "cache": 0}
    estimate = cost.estimates[0]
    cache = estimate.bytes["KV cache"]
    return {"operations": estimate.total.total, "bytes": estimate.peak + cache, "cache": cache}


def _call(name: str, length: int, options: dict[str, Any]) -> Any:
    """Return the cost of a variant as `regard.cost` predicts it."""
    from regard.costs import Recurrent, cost

    if name == "recurrent":
        return Recurrent(length, options["d_model"], options["batch"])
    kv_heads, window = options["kv_heads"], options["window"]
    common = {key: options[key] for key in ("d_model", "heads", "batch", "dtype", "backward")}
    special: dict[str, dict[str, Any]] = {
        "written": {"materialised": True},
        "full": {},
        "window": {"mask": f"causal & window(keys={window})"},
        "grouped": {"kv_heads": kv_heads},
        "cached": {"cached": True, "kv_heads": kv_heads, "backward": False},
    }
    return cost(seq=length, **{**common, **special[name]})


def _options(fields: Fields) -> dict[str, Any]:
    d_model, heads = integer(fields, "d_model", 512, 8, 8192), integer(fields, "heads", 8, 1, 128)
    kv_heads = integer(fields, "kv_heads", 2, 1, 128)
    if d_model % heads:
        message = f"heads must divide the width, got {heads} heads and a width of {d_model}"
        raise FieldError("heads", "heads-divide", message, heads=heads, width=d_model)
    if heads % kv_heads:
        message = f"key/value heads must divide the heads, got {kv_heads} and {heads}"
        raise FieldError("kv_heads", "groups-divide", message, heads=heads, kv_heads=kv_heads)
    return {
        "d_model": d_model,
        "heads": heads,
        "kv_heads": kv_heads,
        "window": integer(fields, "window", 256, 1, 32768),
        "batch": integer(fields, "batch", 1, 1, 64),
        "dtype": choice(fields, "dtype", "float32", tuple(DTYPES)),
        "backward": boolean(fields, "backward", False),
    }


routes = [post("/api/cost", predict), post_job("/api/cost/measure", measure)]
