"""The exercise in NumPy, with the mistakes that can be made in each part."""

import numpy as np

from regard.learn.mistakes import parts
from regard.learn.mistakes.attention import Inputs, scale_of, scores_of
from regard.learn.mistakes.normalise import softmax

PARTS = {
    "given": ("zero-as-none", "ignored", "both", "divided-by-scale", "root-of-scale"),
    "scale": parts.without(parts.SCALES, "scaled-by-axis", "scaled-after", "scaled-by-values", "divided-by-values"),
    "scores": parts.SCORES,
    "result": ("softmax-not-asked", "heads-summed", "heads-summed:mean", "first-head-returned"),
}


def model(made, Q, K, scale=None):
    inputs = Inputs(Q, K, K, sizes={"heads": len(Q), "d_model": len(Q) * Q.shape[-1]})
    own, given = scale_of(made, inputs), made.get("given")
    factor = own if scale is None else scale
    if given == "ignored" or (given == "zero-as-none" and not scale):
        factor = own
    elif scale is not None and given in ("both", "divided-by-scale", "root-of-scale"):
        factor = {"both": lambda: own * scale, "divided-by-scale": lambda: np.float64(1) / scale}.get(
            given, lambda: np.float64(scale) ** 0.5
        )()
    scores = scores_of(made, inputs) * factor
    results = {
        "softmax-not-asked": lambda: softmax({}, scores),
        "heads-summed": lambda: scores.sum(0),
        "heads-summed:mean": lambda: scores.mean(0),
        "first-head-returned": lambda: scores[0],
    }
    return results.get(made.get("result"), lambda: scores)()
