"""The numbers of the view Heads and masks: heads of a seeded layer under a mask, and a trained translator's alignment.

Self-attention is the trace of `regard.attention`, with what the learner painted on the mask, and with some heads
silent. Cross-attention is what `regard.watch` sees in a shipped translator while it writes.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.attention import (
    Trace,
    check_heads,
    divisors,
    embed,
    masks,
    projections,
    tokenize,
    trace,
    trace_layer,
)
from regard.lab.models.watched_models import LONGEST, Off, Watched, one_at_a_time, quietly, switched_off, watched
from regard.lab.server.array_encoding import packed
from regard.lab.server.request_fields import Asked, Mistake, as_json, asked, one_of, post, whole, words

if TYPE_CHECKING:
    from torch import Tensor

MOST_TOKENS, MOST_WIDTH, MOST_HEADS = 64, 128, 16


# -- self-attention ------------------------------------------------------------------------------------------------


def own_sentence(given: Asked) -> dict[str, Any]:
    """Every head of one layer on the learner's sentence.

    text, d_model, heads, seed, mask    as in `regard trace`
    painted     [[query, key], …]: pairs for which the learner turned round what the mask says
    off         heads that are silent

    The output moves for two reasons that are told apart: the mask (all heads on, against nothing hidden), and the
    heads that are off (under the same mask).

    >>> found = own_sentence({"text": "The cat sat", "heads": 2, "d_model": 4, "painted": [[0, 0], [0, 1], [0, 2]]})
    >>> found["visible"], found["empty"]
    ([[0, 0, 0], [1, 1, 1], [1, 1, 1]], [0])
    """
    tokens = tokenize(words(given, "text", "The cat sat on the mat"))
    count = len(tokens)
    if not tokens:
        raise Mistake("text", "no-words", "the text must hold at least one word, got none")
    if count > MOST_TOKENS:
        message = f"the text may hold {MOST_TOKENS} tokens at most, got {count}"
        raise Mistake("text", "many-tokens", message, most=MOST_TOKENS, got=count)
    d_model, heads = whole(given, "d_model", 16, 1, MOST_WIDTH), whole(given, "heads", 4, 1, MOST_HEADS)
    seed = whole(given, "seed", 0, 0, 2**32 - 1)
    d_k = _head_width(d_model, heads)
    ruled = _ruled(given, count)
    seen = _painted(given, ruled)
    x, weights = embed(tokens, d_model, seed), projections(d_model, seed)
    whole_trace, free = (trace_layer(x, *weights, heads=heads, mask=m, tokens=tokens) for m in (seen, None))
    shares = contributions(whole_trace, weights[-1])
    off = _off(given, heads)
    silent = shares[off].sum(0) if off else np.zeros_like(whole_trace.output)
    return {
        "tokens": tokens,
        "d_k": d_k,
        "weights": packed(whole_trace.weights),
        "visible": seen.astype(int).tolist(),
        "ruled": ruled.astype(int).tolist(),
        "empty": np.flatnonzero(~seen.any(-1)).tolist(),
        "output": (whole_trace.output - silent).tolist(),
        "length": _lengths(whole_trace.output),
        "by_mask": _lengths(whole_trace.output - free.output),
        "by_heads": _lengths(silent),
        "shares": [_lengths(share) for share in shares],
        "entropy": [float(row) for row in _entropies(whole_trace.weights, seen)],
    }


def contributions(layer: Trace, w_o: np.ndarray) -> np.ndarray:
    """What each head adds to the output, (H, L, D): its context through its own rows of W_o."""
    context = layer.part("context").values
    rows = w_o.reshape(context.shape[0], context.shape[-1], -1)
    return context @ rows


def _lengths(rows: np.ndarray) -> list[float]:
    return [float(x) for x in np.sqrt((rows**2).sum(-1))]


def _entropies(weights: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The mean entropy of each head's rows, in nats; rows that see nothing have none."""
    some = seen.any(-1)
    if not some.any():
        return np.zeros(len(weights))
    logs = np.log(np.where(weights > 0, weights, 1.0))
    return np.asarray(-(weights * logs).sum(-1)[:, some].mean(-1))


def _head_width(d_model: int, heads: int) -> int:
    try:
        return check_heads(d_model, heads)
    except ValueError as error:
        fits = sorted(n for n in divisors(d_model) if n <= MOST_HEADS)
        near = ", ".join(map(str, sorted(sorted(fits, key=lambda n: abs(n - heads))[:2])))
        raise Mistake("heads", "heads-divide", str(error), heads=heads, width=d_model, near=near) from None


def _ruled(given: Asked, count: int) -> np.ndarray:
    """What the chosen mask lets see, (L, S)."""
    text = words(given, "mask", "none", 400).strip()
    if text in ("", "none"):
        return np.ones((count, count), dtype=bool)
    zeros = np.zeros((count, 1))
    try:
        visible = trace(zeros, zeros, zeros, masks.parse(text)).visible
    except (ValueError, TypeError) as error:
        raise Mistake("mask", "mask", str(error), said=str(error)) from None
    return np.broadcast_to(np.asarray(visible, dtype=bool), (count, count)).copy()


def _painted(given: Asked, ruled: np.ndarray) -> np.ndarray:
    painted = given.get("painted", [])
    count = len(ruled)
    message = f"painted must be a list of pairs [query, key] below {count}"
    if not isinstance(painted, list) or len(painted) > MOST_TOKENS**2:
        raise Mistake("painted", "painted", f"{message}, got {str(painted)[:80]}")
    seen = ruled.copy()
    for pair in painted:
        match pair:
            case [int(query), int(key)] if 0 <= query < count and 0 <= key < count:
                seen[query, key] = not ruled[query, key]
            case _:
                raise Mistake("painted", "painted", f"{message}, got {str(pair)[:80]}")
    return seen


def _off(given: Asked, heads: int) -> list[int]:
    off = given.get("off", [])
    match off:
        case [*numbers] if all(type(n) is int and 0 <= n < heads for n in numbers):
            return sorted(set(numbers))
        case _:
            raise Mistake("off", "off", f"off must be a list of heads from 0 to {heads - 1}, got {str(off)[:80]}")


# -- cross-attention -----------------------------------------------------------------------------------------------


def alignment(given: Asked) -> dict[str, Any]:
    """What a shipped translator looks at while it writes, in every layer and head, and what it writes without some.

    model   "phrases" (English → 中文) or "dates"
    text    what is translated
    off     [[layer, head], …]: heads of the cross-attention that are silent

    `before` and `after` are the probabilities of each token that is written, with all heads and without those.
    """
    name = one_of(given, "model", "phrases", ("phrases", "dates"))
    text = words(given, "text", "The cat sat on the mat", LONGEST)
    off = _off_by_layer(given)
    with one_at_a_time:
        found = watched(name, text)
        return _aligned(found, off)


def _aligned(found: Watched, off: Off) -> dict[str, Any]:
    run, calls = found.known.run, found.seen.calls
    assert run is not None
    cross = [i for i, call in enumerate(calls) if call.name.endswith(".cross")]
    queries, keys = found.names[cross[0]]
    before = _probabilities(found)
    after, rewritten = before, found.written
    if off:
        _check_off(off, len(cross), calls[cross[0]].shape[1])
        with switched_off(run.model, off):
            after = _probabilities(found)
            rewritten = quietly(lambda: run.generate(found.text))
    facts = [calls[i].statistics for i in cross]
    return {
        "queries": queries,
        "keys": keys,
        "written": found.written,
        "rewritten": rewritten,
        "unseen": found.unseen,
        "weights": packed(np.stack([calls[i].weights(batch=0).numpy() for i in cross])),
        "entropy": [one.entropy[0].double().mean(-1).tolist() for one in facts],
        "before": before.tolist(),
        "after": after.tolist(),
    }


def _probabilities(found: Watched) -> "Tensor":
    """Of each token that was written, what its step gave it."""
    import torch

    run = found.known.run
    assert run is not None
    source, target = found.given.args
    written = [*target[0, 1:].tolist(), run.tokenizer.inner.token_to_id("<end>")]
    with torch.no_grad():
        scores = run.model(source, target)[0].double()
    return scores.softmax(-1)[torch.arange(len(written)), written]


def _off_by_layer(given: Asked) -> Off:
    off = given.get("off", [])
    message = f"off must be a list of pairs [layer, head], got {str(off)[:80]}"
    if not isinstance(off, list) or len(off) > 64:
        raise Mistake("off", "off", message)
    pairs = set()
    for pair in off:
        match pair:
            case [int(layer), int(head)] if layer >= 0 and head >= 0:
                pairs.add((layer, head))
            case _:
                raise Mistake("off", "off", message)
    return tuple(sorted(pairs))


def _check_off(off: Off, layers: int, heads: int) -> None:
    if any(layer >= layers or head >= heads for layer, head in off):
        raise Mistake("off", "off", f"the model has {layers} layers of {heads} heads, got {list(off)}")


async def align(request: Request) -> Response:
    """The alignment, when its turn has come."""
    given = await asked(request)
    return as_json(await request.app.state.work.run(lambda: alignment(given)))


routes = [post("/api/heads", own_sentence), Route("/api/heads/cross", align, methods=["POST"])]
