"""Endpoints of the view Trace: one trace of `regard.attention`, with the learner's changes to Q, K and V; `nn.Linear`.

The weights are those of a shipped model (`regard.lab.models.trained_layers`), or random. Random weights need no torch.
"""

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from regard.attention import Part, Trace, embed, masks, projections, trace, trace_layer
from regard.attention.reference import numpy_attention as reference
from regard.lab.models.trained_layers import LAYERS, TrainedLayer, trained_layer
from regard.lab.server.attention_fields import head_width, mask, tokens
from regard.lab.server.request_fields import FieldError, Fields, boolean, choice, integer, number, text
from regard.lab.server.routes import post

MOST_TOKENS, MOST_WIDTH, MOST_EDITS = 64, 128, 4096
Edit = tuple[str, int, int, float]


def trace_text(fields: Fields) -> Trace:
    """Return the trace of a text.

    weights       "random", or a layer of `LAYERS`, which has its own heads, width and tokens
    text, d_model, heads, seed, mask   as in `regard trace`
    scale         whether scores are divided by √d_k
    temperature   further divisor of the scores
    edits         [["Q", row, column, value], …]: entries of Q, K and V that the learner has replaced

    >>> float(trace_text({"text": "The cat sat", "edits": [["Q", 0, 0, 5.0]]}).part("project", "Q").values[0, 0])
    5.0
    """
    layer = _layer(fields)
    temperature = number(fields, "temperature", 1.0, 0.01, 100.0)
    width = layer.x.shape[-1]
    d_k = width // layer.heads
    divisor = (math.sqrt(d_k) if boolean(fields, "scale", True) else 1.0) * temperature
    # None lets the trace apply the usual scale itself; its explanations then mention √d_k.
    scale = None if divisor == math.sqrt(d_k) else 1.0 / divisor
    rule = mask(fields, len(layer.queries), len(layer.keys))
    if layer.causal:
        rule = masks.causal() if rule is None else masks.causal() & rule
    options: dict[str, Any] = {"mask": rule, "scale": scale, "tokens": layer.queries}
    keys = layer.keys if layer.context is not None else None
    arguments: dict[str, Any] = {"context": layer.context, "context_tokens": keys, **layer.biases, **options}
    whole = trace_layer(layer.x, *layer.weights, layer.heads, **arguments)
    edits = _edits(fields, {"Q": len(layer.queries), "K": len(layer.keys), "V": len(layer.keys)}, width)
    return apply_edits(whole, edits, layer, {**options, "key_tokens": keys}) if edits else whole


def _layer(fields: Fields) -> TrainedLayer:
    """Return the layer of the field `weights`: one of a shipped model, or random weights from the seed."""
    name = choice(fields, "weights", "random", ("random", *LAYERS))
    if name != "random":
        layer = trained_layer(name, text(fields, "text", "The cat sat on the mat"))
        most = max(len(layer.queries), len(layer.keys))
        if most > MOST_TOKENS:
            message = f"the text may hold {MOST_TOKENS} tokens at most, got {most}"
            raise FieldError("text", "many-tokens", message, most=MOST_TOKENS, got=most)
        return layer
    words = tuple(tokens(fields, MOST_TOKENS))
    d_model = integer(fields, "d_model", 8, 1, MOST_WIDTH)
    heads = integer(fields, "heads", 2, 1, MOST_WIDTH)
    seed = integer(fields, "seed", 0, 0, 2**32 - 1)
    head_width(d_model, heads, MOST_WIDTH)
    return TrainedLayer(embed(words, d_model, seed), None, projections(d_model, seed), {}, heads, False, words, words)


def apply_edits(before: Trace, edits: Sequence[Edit], layer: TrainedLayer, options: dict[str, Any]) -> Trace:
    """Return the trace with some entries of Q, K and V replaced and all later steps computed again."""
    arrays = {part.symbol: part.values.copy() for part in before["project"].parts}
    for symbol, row, column, value in edits:
        arrays[symbol][row, column] = value
    q, k, v = reference.split_projected(arrays["Q"], arrays["K"], arrays["V"], before.heads, before.kv_heads)
    attention = trace(q, k, v, **options)
    merged = reference.merge_heads(attention.output)
    output = reference.linear("W_o", merged, layer.weights[-1], layer.biases.get("b_o"))
    changed = {"project": list(arrays.values()), "split": [q, k, v], "merge": [merged], "output": [output]}
    changed |= {step.name: [part.values for part in step.parts] for step in attention.steps}
    steps = tuple(
        replace(
            step, parts=tuple(Part(p.symbol, x, p.letters) for p, x in zip(step.parts, changed[step.name], strict=True))
        )
        for step in before.steps
    )
    return replace(before, steps=steps)


def _edits(fields: Fields, rows: dict[str, int], width: int) -> list[Edit]:
    entries = fields.get("edits", [])
    message = f"edits must be a list of at most {MOST_EDITS} entries [Q, K or V, row, column, number]"
    if not isinstance(entries, list) or len(entries) > MOST_EDITS:
        raise FieldError("edits", "edits", f"{message}, got {str(entries)[:80]}")
    edits: list[Edit] = []
    for entry in entries:
        match entry:
            case [("Q" | "K" | "V") as symbol, int(row), int(column), int() | float() as value] if (
                0 <= row < rows[symbol] and 0 <= column < width and abs(value) <= 1e6
            ):
                edits.append((symbol, row, column, float(value)))
            case _:
                message = f"{message} for {rows} rows and {width} columns, got {str(entry)[:80]}"
                raise FieldError("edits", "edits", message)
    return edits


def answer(fields: Fields, first_answer: threading.Event) -> str:
    """Return the trace as JSON text, as `Trace.to_json` writes it."""
    text = trace_text(fields).to_json()
    first_answer.set()
    return text


def linear_three_ways(fields: Fields) -> dict[str, Any]:
    """Return what `nn.Linear` makes of a batch (2, S, D) in three ways, and how far the results are apart.

    The batch is the sentence and the sentence reversed; `which` selects the projection (Q, K or V). The three ways are
    a loop over all tokens, a reshape to (2·S, D), and one call.

    >>> answer = linear_three_ways({"text": "The cat sat", "which": "K"})
    >>> answer["shape"], sorted(answer["ways"])
    ([2, 3, 8], ['call', 'loop', 'reshape'])
    """
    import torch
    from torch import nn

    which = choice(fields, "which", "Q", ("Q", "K", "V"))
    layer = _layer(fields)
    at = "QKV".index(which)
    source, names = (layer.x, layer.queries) if at == 0 or layer.context is None else (layer.context, layer.keys)
    bias = layer.biases.get(f"b_{which.lower()}")
    linear = nn.Linear(source.shape[-1], layer.weights[at].shape[-1], bias=bias is not None)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(layer.weights[at].T.copy()))  # nn.Linear computes x Wᵀ + b
        if bias is not None:
            linear.bias.copy_(torch.from_numpy(bias))
        x = torch.from_numpy(source).float()
        batch = torch.stack([x, x.flip(0)])  # (B, S, D)
        call = linear(batch)
        reshape = linear(batch.reshape(-1, batch.shape[-1])).reshape(call.shape)
        loop = torch.stack([torch.stack([linear(token) for token in sentence]) for sentence in batch])
    ways = {"loop": loop, "reshape": reshape, "call": call}
    return {
        "shape": list(call.shape),
        "tokens": [list(names), list(reversed(names))],
        "ways": {name: values.tolist() for name, values in ways.items()},
        "difference": {name: float((values - call).abs().max()) for name, values in ways.items()},
        "unequal": {name: int((values != call).sum()) for name, values in ways.items()},
    }


routes = [
    post("/api/trace/linear", linear_three_ways),
    post("/api/trace", answer, lambda request: request.app.state.first_answer),
]
