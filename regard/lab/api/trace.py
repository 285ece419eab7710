"""Endpoint of the view Trace: one trace of `regard.attention`, with the learner's changes to Q, K and V."""

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.attention import Part, Trace, embed, projections, trace, trace_layer
from regard.attention.reference import numpy_attention as reference
from regard.lab.server.attention_fields import head_width, mask, tokens
from regard.lab.server.request_fields import FieldError, Fields, boolean, integer, number
from regard.lab.server.routes import post

MOST_TOKENS, MOST_WIDTH, MOST_EDITS = 64, 128, 4096
Edit = tuple[str, int, int, float]


def trace_text(fields: Fields) -> Trace:
    """Return the trace of a text.

    text, d_model, heads, seed, mask   as in `regard trace`
    scale         whether scores are divided by √d_k
    temperature   further divisor of the scores
    edits         [["Q", row, column, value], …]: entries of Q, K and V that the learner has replaced

    >>> float(trace_text({"text": "The cat sat", "edits": [["Q", 0, 0, 5.0]]}).part("project", "Q").values[0, 0])
    5.0
    """
    words = tokens(fields, MOST_TOKENS)
    d_model = integer(fields, "d_model", 8, 1, MOST_WIDTH)
    heads = integer(fields, "heads", 2, 1, MOST_WIDTH)
    seed = integer(fields, "seed", 0, 0, 2**32 - 1)
    temperature = number(fields, "temperature", 1.0, 0.01, 100.0)
    d_k = head_width(d_model, heads, MOST_WIDTH)
    divisor = (math.sqrt(d_k) if boolean(fields, "scale", True) else 1.0) * temperature
    # None lets the trace apply the usual scale itself; its explanations then mention √d_k.
    scale = None if divisor == math.sqrt(d_k) else 1.0 / divisor
    options: dict[str, Any] = {"mask": mask(fields, len(words)), "scale": scale, "tokens": words}
    weights = projections(d_model, seed)
    layer_trace = trace_layer(embed(words, d_model, seed), *weights, heads=heads, **options)
    edits = _edits(fields, len(words), d_model)
    return apply_edits(layer_trace, edits, weights[-1], options) if edits else layer_trace


def apply_edits(before: Trace, edits: Sequence[Edit], w_o: np.ndarray, options: dict[str, Any]) -> Trace:
    """Return the trace with some entries of Q, K and V replaced and all later steps computed again."""
    arrays = {part.symbol: part.values.copy() for part in before["project"].parts}
    for symbol, row, column, value in edits:
        arrays[symbol][row, column] = value
    q, k, v = reference.split_projected(arrays["Q"], arrays["K"], arrays["V"], before.heads, before.kv_heads)
    attention = trace(q, k, v, **options)
    merged = reference.merge_heads(attention.output)
    output = reference.linear("W_o", merged, w_o, None)
    changed = {"project": list(arrays.values()), "split": [q, k, v], "merge": [merged], "output": [output]}
    changed |= {step.name: [part.values for part in step.parts] for step in attention.steps}
    steps = tuple(
        replace(
            step, parts=tuple(Part(p.symbol, x, p.letters) for p, x in zip(step.parts, changed[step.name], strict=True))
        )
        for step in before.steps
    )
    return replace(before, steps=steps)


def _edits(fields: Fields, count: int, width: int) -> list[Edit]:
    entries = fields.get("edits", [])
    message = f"edits must be a list of at most {MOST_EDITS} entries [Q, K or V, row, column, number]"
    if not isinstance(entries, list) or len(entries) > MOST_EDITS:
        raise FieldError("edits", "edits", f"{message}, got {str(entries)[:80]}")
    edits: list[Edit] = []
    for entry in entries:
        match entry:
            case [("Q" | "K" | "V") as symbol, int(row), int(column), int() | float() as value] if (
                0 <= row < count and 0 <= column < width and abs(value) <= 1e6
            ):
                edits.append((symbol, row, column, float(value)))
            case _:
                message = f"{message} for {count} rows and {width} columns, got {str(entry)[:80]}"
                raise FieldError("edits", "edits", message)
    return edits


def answer(fields: Fields, first_answer: threading.Event) -> str:
    """Return the trace as JSON text, as `Trace.to_json` writes it."""
    text = trace_text(fields).to_json()
    first_answer.set()
    return text


routes = [post("/api/trace", answer, lambda request: request.app.state.first_answer)]
