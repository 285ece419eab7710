"""The exercise in NumPy, with the mistakes that can be made in each part."""

import numpy as np

from regard.learn.mistakes import heads, parts
from regard.learn.mistakes.attention import Inputs, attend
from regard.learn.mistakes.projections import PROJECTIONS, project

PARTS = {
    "scores": ("heads-mixed", "batch-mixed", "diagonal", *parts.SCORES),
    "scale": parts.without(parts.SCALES, "scaled-by-axis", "scaled-by-queries"),
    "softmax": parts.SOFTMAXES,
    "maximum": parts.MAXIMUMS,
    "mix": parts.MIXES,
    "output": (
        "heads-averaged",
        "heads-mixed-in-output",
        "first-head-output",
        "heads-mixed-in-output:weights",
        "heads-not-summed",
    ),
    "projection": parts.without(PROJECTIONS, "order"),
    "heads": heads.HEADS,
    "return": parts.RETURNS,
    "batch": parts.BATCHES[:-1],
}


def model(made, x, W_q, W_k, W_v, W_o):
    q, k, v = project(made, x, *(lambda y, W=W: np.einsum("bsd,dhk->bhsk", y, W) for W in (W_q, W_k, W_v)))
    H = len(W_o)
    if made.get("scores") == "diagonal":
        s = (q * k).sum(-1) / float(np.sqrt(q.shape[-1]))
        e = np.exp(s - s.max(-1, keepdims=True))
        w = e / e.sum(-1, keepdims=True)
        return np.einsum("bhs,bhsv,hvo->bso", w, v, W_o), w
    made = {**made, "scores": "batch-summed"} if made.get("scores") == "batch-mixed" else made
    mixed, weights = attend(made, Inputs(q, k, v, sizes={"heads": H, "d_model": x.shape[-1], "batch": len(x)}))
    output = made.get("output")
    if made.get("return") == "results-swapped":
        mixed, weights = weights, mixed
    if output == "heads-mixed-in-output":
        mixed = np.broadcast_to(mixed.sum(1, keepdims=True), mixed.shape)
    elif output == "heads-mixed-in-output:weights":
        W_o = np.broadcast_to(W_o.sum(0, keepdims=True), W_o.shape)
    elif output == "first-head-output":
        mixed, W_o = mixed[:, :1], W_o[:1]
    result = np.einsum("bhlv,hvd->bhld" if output == "heads-not-summed" else "bhlv,hvd->bld", mixed, W_o)
    if output == "heads-averaged":
        result = result / H
    return (weights, result) if made.get("return") == "results-swapped" else (result, weights)
