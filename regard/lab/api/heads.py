"""Endpoints of the view Heads and masks: heads of a seeded layer under a mask, and a trained translator's alignment.

Self-attention is a trace of `regard.attention` under the mask that the learner painted, with some heads disabled.
Cross-attention is recorded by `regard.watch` in a translator of the package while it writes.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.attention import embed, projections, trace_layer
from regard.lab.models.watched_models import (
    LONGEST,
    WatchedRun,
    watch_lock,
    watch_text,
    without_warnings,
)
from regard.lab.server.array_encoding import encode_array
from regard.lab.server.attention_fields import head_width, mask, tokens, visible_pairs
from regard.lab.server.request_fields import FieldError, Fields, choice, integer, text
from regard.lab.server.routes import post

if TYPE_CHECKING:
    from torch import Tensor

MOST_TOKENS, MOST_WIDTH, MOST_HEADS = 64, 128, 16
Heads = tuple[tuple[int, int], ...]  # pairs of layer and head


# -- self-attention ------------------------------------------------------------------------------------------------


def self_attention(fields: Fields) -> dict[str, Any]:
    """Return the attention of every head of one layer on the learner's text.

    text, d_model, heads, seed, mask    as in `regard trace`
    painted     [[query, key], …]: pairs whose visibility the learner has inverted
    off         heads that are disabled

    Two causes of a change of the output are reported separately: the mask (all heads enabled, compared with no mask),
    and the disabled heads (under the same mask).

    >>> answer = self_attention({"text": "The cat sat", "heads": 2, "d_model": 4, "painted": [[0, 0], [0, 1], [0, 2]]})
    >>> answer["visible"], answer["empty"]
    ([[0, 0, 0], [1, 1, 1], [1, 1, 1]], [0])
    """
    words = tokens(fields, MOST_TOKENS)
    d_model, heads = integer(fields, "d_model", 16, 1, MOST_WIDTH), integer(fields, "heads", 4, 1, MOST_HEADS)
    seed = integer(fields, "seed", 0, 0, 2**32 - 1)
    d_k = head_width(d_model, heads, MOST_HEADS)
    by_rule = visible_pairs(mask(fields, len(words)), len(words))
    visible = _paint(fields, by_rule)
    x, weights = embed(words, d_model, seed), projections(d_model, seed)
    masked, unmasked = (trace_layer(x, *weights, heads=heads, mask=m, tokens=words) for m in (visible, None))
    context = masked.part("context").values
    # What each head adds to the output, (H, L, D): its context times its own rows of W_o.
    contributions = context @ weights[-1].reshape(context.shape[0], context.shape[-1], -1)
    disabled = _disabled_heads(fields, heads)
    removed = contributions[disabled].sum(0) if disabled else np.zeros_like(masked.output)
    return {
        "tokens": words,
        "d_k": d_k,
        "weights": encode_array(masked.weights),
        "visible": visible.astype(int).tolist(),
        "ruled": by_rule.astype(int).tolist(),
        "empty": np.flatnonzero(~visible.any(-1)).tolist(),
        "output": (masked.output - removed).tolist(),
        "length": _norms(masked.output),
        "by_mask": _norms(masked.output - unmasked.output),
        "by_heads": _norms(removed),
        "shares": [_norms(contribution) for contribution in contributions],
        "entropy": _entropies(masked.weights, visible).tolist(),
    }


def _norms(rows: np.ndarray) -> list[float]:
    norms: list[float] = np.sqrt((rows**2).sum(-1)).tolist()
    return norms


def _entropies(weights: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """Return the mean entropy of each head's rows, in nats; empty rows are left out."""
    not_empty = visible.any(-1)
    if not not_empty.any():
        return np.zeros(len(weights))
    logs = np.log(np.where(weights > 0, weights, 1.0))
    return np.asarray(-(weights * logs).sum(-1)[:, not_empty].mean(-1))


def _paint(fields: Fields, by_rule: np.ndarray) -> np.ndarray:
    """Return the visible (query, key) pairs, with those inverted that the learner painted."""
    painted = fields.get("painted", [])
    count = len(by_rule)
    message = f"painted must be a list of pairs [query, key] below {count}"
    if not isinstance(painted, list) or len(painted) > MOST_TOKENS**2:
        raise FieldError("painted", "painted", f"{message}, got {str(painted)[:80]}")
    visible = by_rule.copy()
    for pair in painted:
        match pair:
            case [int(query), int(key)] if 0 <= query < count and 0 <= key < count:
                visible[query, key] = not by_rule[query, key]
            case _:
                raise FieldError("painted", "painted", f"{message}, got {str(pair)[:80]}")
    return visible


def _disabled_heads(fields: Fields, heads: int) -> list[int]:
    off = fields.get("off", [])
    if not isinstance(off, list) or not all(type(n) is int and 0 <= n < heads for n in off):
        raise FieldError("off", "off", f"off must be a list of heads from 0 to {heads - 1}, got {str(off)[:80]}")
    return sorted(set(off))


# -- cross-attention -----------------------------------------------------------------------------------------------


def alignment(fields: Fields) -> dict[str, Any]:
    """Return the cross-attention of a translator in every layer and head, and its translation without some heads.

    model   "phrases" (English → 中文) or "dates"
    text    the text to translate
    off     [[layer, head], …]: heads of the cross-attention that are disabled

    `before` and `after` are the probabilities of each written token, with all heads and without the disabled ones.
    """
    name = choice(fields, "model", "phrases", ("phrases", "dates"))
    source = text(fields, "text", "The cat sat on the mat", LONGEST)
    off = _disabled_pairs(fields)
    with watch_lock:
        return _align(watch_text(name, source), off)


def _align(watched: WatchedRun, off: Heads) -> dict[str, Any]:
    from regard import intervene
    from regard.interventions import ablate

    run, calls = watched.model.run, watched.seen.calls
    assert run is not None
    cross = [i for i, call in enumerate(calls) if call.name.endswith(".cross")]
    queries, keys = watched.names[cross[0]]
    before = _token_probabilities(watched)
    after, rewritten = before, watched.written
    if off:
        layers, heads = len(cross), calls[cross[0]].shape[1]
        if any(layer >= layers or head >= heads for layer, head in off):
            raise FieldError("off", "off", f"layers must be below {layers} and heads below {heads}, got {list(off)}")
        by_layer = {layer: [head for other, head in off if other == layer] for layer, _ in off}
        with intervene(run.model, {calls[cross[layer]].name: ablate(heads) for layer, heads in by_layer.items()}):
            after = _token_probabilities(watched)
            rewritten = without_warnings(lambda: run.generate(watched.text))
    return {
        "queries": queries,
        "keys": keys,
        "written": watched.written,
        "rewritten": rewritten,
        "unseen": watched.unseen,
        "weights": encode_array(np.stack([calls[i].weights(batch=0).numpy() for i in cross])),
        "entropy": [calls[i].statistics.entropy[0].double().mean(-1).tolist() for i in cross],
        "before": before.tolist(),
        "after": after.tolist(),
    }


def _token_probabilities(watched: WatchedRun) -> "Tensor":
    """Return the probability that the model gives each token of its translation, given the tokens before it."""
    import torch

    run = watched.model.run
    assert run is not None
    source, target = watched.inputs.args
    written = [*target[0, 1:].tolist(), run.tokenizer.inner.token_to_id("<end>")]
    with torch.no_grad():
        scores = run.model(source, target)[0].double()
    return scores.softmax(-1)[torch.arange(len(written)), written]


def _disabled_pairs(fields: Fields) -> Heads:
    off = fields.get("off", [])
    is_list = isinstance(off, list) and len(off) <= 64 and all(isinstance(x, list) and len(x) == 2 for x in off)
    if not is_list or not all(isinstance(n, int) and n >= 0 for pair in off for n in pair):
        raise FieldError("off", "off", f"off must be a list of pairs [layer, head], got {str(off)[:80]}")
    return tuple(sorted({(layer, head) for layer, head in off}))


routes = [post("/api/heads", self_attention), post("/api/heads/cross", alignment, queued=True)]
