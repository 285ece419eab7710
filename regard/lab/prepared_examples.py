"""Requests whose answers the static edition contains: the examples of Start, Trace, Geometry, Cost, cards and Claims.

A request is written exactly as the page sends it, with its fields in the same order: the answers are found by the text
of the request (`request_key`). The tests open every example in the browser, so that a changed request is noticed.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from regard.lab.models.trained_layers import LAYERS

SENTENCES = ("The cat sat on the mat", "The small dog slept under the table", "Did the girl read a book?")
MASKS = ("none", "causal", "window(keys=3)", "causal & window(keys=3)", "prefix(3)")
GEOMETRY_SEED = 35  # the default seed of the view Geometry
DRILL = {"level": 2, "kind": "one-query"}  # the drill of Start
COST = {"d_model": 512, "heads": 8, "kv_heads": 2, "window": 256, "batch": 1, "dtype": "float32", "backward": False}


class Request(NamedTuple):
    """One request of the page to the server."""

    method: str
    path: str
    body: dict[str, Any] | None = None


def request_key(request: Request) -> str:
    """Return the text by which the page finds an answer, as in `static/kit/api.js`.

    >>> request_key(Request("POST", "/api/geometry", {"text": "猫", "query": 0}))
    'POST /api/geometry {"text":"猫","query":0}'
    """
    key = f"{request.method} {request.path}"
    if request.body is None:
        return key
    return f"{key} {json.dumps(request.body, ensure_ascii=False, separators=(',', ':'))}"


def prepared_requests() -> list[Request]:
    """Return all requests that the static edition answers.

    >>> {request.path.split("/")[2].split("?")[0] for request in prepared_requests()} >= {"trace", "geometry", "cost"}
    True
    """
    return [*_start(), *_trace(), *_geometry(), *_cost(), *_cards(), Request("GET", "/api/claims")]


def _start() -> Iterator[Request]:
    for text in SENTENCES:
        yield Request("POST", "/api/heads/cross", {"model": "phrases", "text": text, "off": []})


def _trace() -> Iterator[Request]:
    first, *_ = SENTENCES
    translator = [name for name, (model, _) in LAYERS.items() if model == "phrases"]
    language = [name for name in LAYERS if name not in translator]
    bodies = [_trace_body(weights, text) for weights in translator for text in SENTENCES]
    bodies += [_trace_body(weights, first) for weights in language]  # their width makes them large
    bodies += [_trace_body("encoder-1", first, mask=mask) for mask in MASKS[1:]]
    bodies += [_trace_body(weights, first, scale=False) for weights in ("encoder-1", "cross-2")]
    random = [(text, mask, scale) for text in SENTENCES for mask in MASKS for scale in (True, False)]
    bodies += [_trace_body("random", text, mask=mask, scale=scale) for text, mask, scale in random]
    bodies += [_trace_body("random", first, heads=heads) for heads in (1, 4, 8)]
    bodies += [_trace_body("random", first, seed=seed) for seed in (1, 2, 3)]
    for body in bodies:
        yield Request("POST", "/api/trace", body)
    for weights in ("cross-2", "random"):
        for text in SENTENCES:
            for which in "QKV":
                yield Request("POST", "/api/trace/linear", {**_trace_body(weights, text), "which": which})


def _trace_body(weights: str, text: str, mask: str = "none", scale: bool = True, **sizes: int) -> dict[str, Any]:
    body = {"weights": weights, "text": text, "mask": mask, "scale": scale, "temperature": 1, "edits": []}
    return body | ({"heads": 2, "d_model": 8, "seed": 0, **sizes} if weights == "random" else {})


def _geometry() -> Iterator[Request]:
    for text in SENTENCES:
        for query in range(len(text.split())):
            body = {"text": text, "seed": GEOMETRY_SEED, "query": query, "temperature": 1, "vector": []}
            yield Request("POST", "/api/geometry", body)


def _cost() -> Iterator[Request]:
    changes: list[dict[str, Any]] = [{"d_model": 2**n} for n in range(3, 14)]
    changes += [{"dtype": "bfloat16"}, {"dtype": "float64"}, {"backward": True}, {"kv_heads": 8}]
    for change in changes:
        yield Request("POST", "/api/cost", COST | change)


def _cards() -> Iterator[Request]:
    from regard.learn import all_cards, drill, topics

    yield Request("GET", "/api/practice")
    for topic in ("", *(topic.name for topic in topics())):
        yield Request("GET", f"/api/practice/cards?topic={topic}")
    for card in all_cards():
        yield Request("GET", f"/api/practice/cards/{card.id}")
    names = [drill(2, seed, "one-query").name for seed in (0, 1)]
    for name, besides in zip(names, ("", names[0]), strict=True):
        yield Request("POST", "/api/practice/drill", {**DRILL, "besides": besides})
        yield Request("GET", f"/api/practice/drills/{name.replace(':', '%3A')}")
        yield Request("POST", "/api/practice/drill/check", {"name": name, "answers": {}})
    yield Request("POST", "/api/practice/drill", {**DRILL, "besides": names[1]})
