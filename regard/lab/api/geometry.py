"""The numbers of the view Geometry: one query over keys of width 3, which can be drawn as they are.

Nothing is projected away: a head of width 3 lives in space, so the angle that is seen is the angle that is scored.
"""

import math
from typing import Any

import numpy as np

from regard.attention import Trace, embed, projections, tokenize, trace
from regard.lab.server.request_fields import Asked, Mistake, post, real, whole, words

MOST_TOKENS, FARTHEST = 24, 12.0


def seen_from(given: Asked) -> Trace:
    """The trace of one query of the text, or of a vector that the learner moved it to.

    >>> seen_from({"text": "The cat sat", "vector": [1, 0, 0]}).weights.shape
    (1, 3)
    """
    tokens = tokenize(words(given, "text", "The cat sat on the mat"))
    if not tokens:
        raise Mistake("text", "no-words", "the text must hold at least one word, got none")
    if len(tokens) > MOST_TOKENS:
        message = f"the text may hold {MOST_TOKENS} tokens at most, got {len(tokens)}"
        raise Mistake("text", "many-words", message, most=MOST_TOKENS, got=len(tokens))
    seed = whole(given, "seed", 0, 0, 2**32 - 1)
    query = whole(given, "query", 0, 0, len(tokens) - 1)
    temperature = real(given, "temperature", 1.0, 0.01, 100.0)
    x, (w_q, w_k, w_v, _) = embed(tokens, 3, seed), projections(3, seed)
    q = _vector(given, x[query] @ w_q)
    scale = None if temperature == 1 else 1 / (math.sqrt(3) * temperature)
    return trace(q[None], x @ w_k, x @ w_v, scale=scale, tokens=[tokens[query]], key_tokens=tokens)


def _vector(given: Asked, usual: np.ndarray) -> np.ndarray:
    vector = given.get("vector", [])
    match vector:
        case []:
            return usual
        case [int() | float(), int() | float(), int() | float()] if max(map(abs, vector)) <= FARTHEST:
            return np.array(vector, dtype=np.float64)
        case _:
            message = f"vector must be three numbers from {-FARTHEST:g} to {FARTHEST:g}, got {str(vector)[:80]}"
            raise Mistake("vector", "vector", message, most=FARTHEST)


def answer(given: Asked) -> Any:
    """The trace as JSON."""
    return seen_from(given).to_json()


routes = [post("/api/geometry", answer)]
