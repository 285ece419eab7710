"""The numbers of the view Trace: one trace of `regard.attention`, with the learner's changes to Q, K and V."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.attention import Part, Trace, check_heads, embed, masks, projections, tokenize, trace, trace_layer
from regard.attention.reference import numpy_attention as reference
from regard.lab.server.request_fields import Asked, Mistake, as_json, asked, real, truth, whole, words

MOST_TOKENS, MOST_WIDTH, MOST_EDITS = 64, 128, 4096
Edit = tuple[str, int, int, float]


def traced(given: Asked) -> Trace:
    """The trace that a learner asks for.

    text, d_model, heads, seed, mask   as in `regard trace`
    scale         whether scores are divided by √d_k
    temperature   by what they are divided besides
    edits         [["Q", row, column, value], …]: numbers of Q, K and V that are not X·W but what the learner says

    >>> float(traced({"text": "The cat sat", "edits": [["Q", 0, 0, 5.0]]}).part("project", "Q").values[0, 0])
    5.0
    """
    tokens = tokenize(words(given, "text", "The cat sat on the mat"))
    if not tokens:
        raise Mistake("text", "no-words", "the text must hold at least one word, got none")
    if len(tokens) > MOST_TOKENS:
        message = f"the text may hold {MOST_TOKENS} tokens at most, got {len(tokens)}"
        raise Mistake("text", "many-words", message, most=MOST_TOKENS, got=len(tokens))
    d_model = whole(given, "d_model", 8, 1, MOST_WIDTH)
    heads = whole(given, "heads", 2, 1, MOST_WIDTH)
    seed = whole(given, "seed", 0, 0, 2**32 - 1)
    temperature = real(given, "temperature", 1.0, 0.01, 100.0)
    d_k = _head_width(d_model, heads)
    divisor = (math.sqrt(d_k) if truth(given, "scale", True) else 1.0) * temperature
    # The usual scale is left to the trace, whose words then speak of √d_k.
    scale = None if divisor == math.sqrt(d_k) else 1.0 / divisor
    options: dict[str, Any] = {"mask": _mask(given, len(tokens)), "scale": scale, "tokens": tokens}
    weights = projections(d_model, seed)
    whole_trace = trace_layer(embed(tokens, d_model, seed), *weights, heads=heads, **options)
    edits = _edits(given, len(tokens), d_model)
    return edited(whole_trace, edits, weights[-1], options) if edits else whole_trace


def edited(before: Trace, edits: Sequence[Edit], w_o: np.ndarray, options: dict[str, Any]) -> Trace:
    """The trace with some numbers of Q, K and V changed by hand, and everything after them computed again."""
    arrays = {part.symbol: part.values.copy() for part in before["project"].parts}
    for symbol, row, column, value in edits:
        arrays[symbol][row, column] = value
    q, k, v = reference.split_projected(arrays["Q"], arrays["K"], arrays["V"], before.heads, before.kv_heads)
    attended = trace(q, k, v, **options)
    merged = reference.merge_heads(attended.output)
    output = reference.linear("W_o", merged, w_o, None)
    changed = {"project": list(arrays.values()), "split": [q, k, v], "merge": [merged], "output": [output]}
    changed |= {step.name: [part.values for part in step.parts] for step in attended.steps}
    steps = tuple(
        replace(
            step, parts=tuple(Part(p.symbol, x, p.letters) for p, x in zip(step.parts, changed[step.name], strict=True))
        )
        for step in before.steps
    )
    return replace(before, steps=steps)


def _head_width(d_model: int, heads: int) -> int:
    try:
        return check_heads(d_model, heads)
    except ValueError as error:
        fits = [n for n in range(1, d_model + 1) if d_model % n == 0]
        near = sorted(sorted(fits, key=lambda n: abs(n - heads))[:2])
        facts = {"heads": heads, "width": d_model, "near": ", ".join(map(str, near))}
        raise Mistake("heads", "heads-divide", str(error), **facts) from None


def _mask(given: Asked, count: int) -> masks.Mask | None:
    text = words(given, "mask", "none", 200).strip()
    if text in ("", "none"):
        return None
    try:
        mask = masks.parse(text)
        trace(np.zeros((count, 1)), np.zeros((count, 1)), np.zeros((count, 1)), mask)  # some rules need a size
    except (ValueError, TypeError) as error:
        raise Mistake("mask", "mask", str(error), said=str(error)) from None
    return mask


def _edits(given: Asked, count: int, width: int) -> list[Edit]:
    edits = given.get("edits", [])
    message = f"edits must be a list of at most {MOST_EDITS} entries [Q, K or V, row, column, number]"
    if not isinstance(edits, list) or len(edits) > MOST_EDITS:
        raise Mistake("edits", "edits", f"{message}, got {str(edits)[:80]}")
    found: list[Edit] = []
    for entry in edits:
        match entry:
            case [("Q" | "K" | "V") as symbol, int(row), int(column), int() | float() as value] if (
                0 <= row < count and 0 <= column < width and abs(value) <= 1e6
            ):
                found.append((symbol, row, column, float(value)))
            case _:
                raise Mistake(
                    "edits", "edits", f"{message} for {count} rows and {width} columns, got {str(entry)[:80]}"
                )
    return found


async def answer(request: Request) -> Response:
    """The trace as JSON, the same that `Trace.to_json` writes everywhere."""
    given = await asked(request)
    text = await run_in_threadpool(lambda: traced(given).to_json())
    request.app.state.served.set()
    return as_json(text)


routes = [Route("/api/trace", answer, methods=["POST"])]
