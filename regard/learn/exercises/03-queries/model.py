"""The exercise in NumPy, with the mistakes that can be made in each part."""

from regard.learn.mistakes import parts
from regard.learn.mistakes.attention import Inputs, attend

PARTS = {
    "size": ("square-only", "square-only:one-query"),
    "mask": parts.UNASKED_MASKS,
    "scale": parts.SCALES,
    "scores": parts.SCORES,
    "softmax": (*parts.without(parts.SOFTMAXES, "across-heads"), "fixed-axis"),
    "maximum": parts.MAXIMUMS,
    "mix": parts.MIXES,
    "return": parts.RETURNS,
    "batch": parts.BATCHES,
}


def model(made, Q, K, V):
    parts.check_square(made, Q.shape[-2], K.shape[-2])
    sizes = {"batch": len(Q)} if Q.ndim == 3 else {}
    return attend(made, Inputs(Q, K, V, sizes=sizes))
