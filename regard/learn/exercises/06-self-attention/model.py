"""The exercise in NumPy, with the mistakes that can be made in each part."""

from regard.learn.mistakes import parts
from regard.learn.mistakes.attention import Inputs, attend
from regard.learn.mistakes.projections import PROJECTIONS, project

PARTS = {
    "projection": ("transposed-weights", *PROJECTIONS),
    "mask": parts.UNASKED_MASKS,
    "scale": parts.without(parts.SCALES, "scaled-by-axis", "scaled-by-queries"),
    "scores": parts.SCORES,
    "softmax": parts.without(parts.SOFTMAXES, "across-heads"),
    "maximum": parts.MAXIMUMS,
    "mix": parts.MIXES,
    "return": parts.RETURNS,
}


def model(made, X, W_q, W_k, W_v):
    if made.get("projection") == "transposed-weights":
        W_q, W_k, W_v = W_q.T, W_k.T, W_v.T
    Q, K, V = project(made, X, *(lambda x, W=W: x @ W for W in (W_q, W_k, W_v)))
    sizes = {"d_model": X.shape[-1]}
    return Q, K, V, *attend(made, Inputs(Q, K, V, sizes=sizes))
