"""Fields that the views on one attention layer share: the tokens of a text, the number of heads, the mask."""

import numpy as np

from regard.attention import check_heads, divisors, masks, tokenize, trace
from regard.lab.server.request_fields import FieldError, Fields, text


def tokens(fields: Fields, most: int) -> list[str]:
    """Return the tokens of the field `text`: at least one, at most `most`.

    >>> tokens({"text": "The cat"}, 8)
    ['The', 'cat']
    """
    words = tokenize(text(fields, "text", "The cat sat on the mat"))
    if not words:
        raise FieldError("text", "no-words", "the text must hold at least one word, got none")
    if len(words) > most:
        message = f"the text may hold {most} tokens at most, got {len(words)}"
        raise FieldError("text", "many-tokens", message, most=most, got=len(words))
    return words


def head_width(d_model: int, heads: int, most_heads: int) -> int:
    """Return the width of one head; an error suggests the nearest numbers of heads that divide `d_model`."""
    try:
        return check_heads(d_model, heads)
    except ValueError as error:
        fitting = sorted((n for n in divisors(d_model) if n <= most_heads), key=lambda n: abs(n - heads))
        near = ", ".join(map(str, sorted(fitting[:2])))
        raise FieldError("heads", "heads-divide", str(error), heads=heads, width=d_model, near=near) from None


def mask(fields: Fields, count: int, keys: int | None = None) -> masks.Mask | None:
    """Return the mask of the field `mask`, or None when nothing is hidden; checked on `count` queries and `keys` keys.

    Without `keys` there are as many keys as queries.
    """
    rule = text(fields, "mask", "none", 400).strip()
    if rule in ("", "none"):
        return None
    try:
        parsed = masks.parse(rule)
        visible_pairs(parsed, count, keys)  # some masks are valid for certain lengths only
    except (ValueError, TypeError) as error:
        raise FieldError("mask", "mask", str(error), reason=str(error)) from None
    return parsed


def visible_pairs(rule: masks.Mask | None, count: int, keys: int | None = None) -> np.ndarray:
    """Return the (L, S) matrix of visible pairs of `count` queries and `keys` keys, by default as many, under the mask.

    >>> visible_pairs(masks.causal(), 2).tolist()
    [[True, False], [True, True]]
    """
    shape = (count, count if keys is None else keys)
    if rule is None:
        return np.ones(shape, dtype=bool)
    queries, zeros = np.zeros((count, 1)), np.zeros((shape[1], 1))
    visible = trace(queries, zeros, zeros, rule).visible
    return np.broadcast_to(np.asarray(visible, dtype=bool), shape).copy()
