"""Endpoint of the view Geometry: one query over keys of width 3.

Queries and keys of width 3 are drawn as they are, without projection, so the angle on the screen is the angle that
determines the score.
"""

import math

import numpy as np

from regard.attention import Trace, embed, projections, trace
from regard.lab.server.attention_fields import tokens
from regard.lab.server.request_fields import FieldError, Fields, integer, number
from regard.lab.server.routes import post

MOST_TOKENS, LARGEST_COORDINATE = 24, 12.0


def trace_query(fields: Fields) -> Trace:
    """Return the trace of one query of the text, or of the vector to which the learner moved it.

    >>> trace_query({"text": "The cat sat", "vector": [1, 0, 0]}).weights.shape
    (1, 3)
    """
    words = tokens(fields, MOST_TOKENS)
    seed = integer(fields, "seed", 0, 0, 2**32 - 1)
    query = integer(fields, "query", 0, 0, len(words) - 1)
    temperature = number(fields, "temperature", 1.0, 0.01, 100.0)
    x, (w_q, w_k, w_v, _) = embed(words, 3, seed), projections(3, seed)
    q = _vector(fields, x[query] @ w_q)
    scale = None if temperature == 1 else 1 / (math.sqrt(3) * temperature)
    return trace(q[None], x @ w_k, x @ w_v, scale=scale, tokens=[words[query]], key_tokens=words)


def _vector(fields: Fields, default: np.ndarray) -> np.ndarray:
    vector, most = fields.get("vector", []), LARGEST_COORDINATE
    match vector:
        case []:
            return default
        case [int() | float(), int() | float(), int() | float()] if max(map(abs, vector)) <= most:
            return np.array(vector, dtype=np.float64)
        case _:
            message = f"vector must be three numbers from {-most:g} to {most:g}, got {str(vector)[:80]}"
            raise FieldError("vector", "vector", message, most=most)


routes = [post("/api/geometry", lambda fields: trace_query(fields).to_json())]
