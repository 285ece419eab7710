"""The exercise in NumPy, with the mistakes that can be made in each part."""

import numpy as np

from regard.learn.mistakes import heads, parts
from regard.learn.mistakes.attention import Inputs, attend

PARTS = {
    "size": ("square-only", "square-only:one-query"),
    "split": heads.SPLITS,
    "merge": heads.MERGES,
    "heads": heads.HEADS,
    "mask": parts.UNASKED_MASKS,
    "scale": parts.without(parts.SCALES, "scaled-by-axis"),
    "scores": parts.SCORES,
    "softmax": parts.SOFTMAXES,
    "maximum": parts.MAXIMUMS,
    "mix": parts.MIXES,
    "return": parts.RETURNS,
    "batch": parts.BATCHES[:-1],
}


def model(made, Q, K, V, n_heads):
    parts.check_square(made, Q.shape[-2], K.shape[-2])
    q, k, v = (heads.split(made, x, n_heads, which) for x, which in ((Q, "queries"), (K, "keys"), (V, "values")))
    sizes = {"heads": n_heads, "d_model": Q.shape[-1], "batch": len(Q)}
    swapped = made.get("return") == "results-swapped"
    output, weights = attend({**made, "return": ""} if swapped else made, Inputs(q, k, v, sizes=sizes))
    output = heads.merge(made, output)
    if made.get("split") == "single-head" and weights.ndim == 4:
        weights = np.repeat(weights, n_heads, axis=1)
    return (weights, output) if swapped else (output, weights)
