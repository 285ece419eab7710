"""The exercise in NumPy, with the mistakes that can be made in each part."""

import numpy as np

from regard.learn.mistakes import parts
from regard.learn.mistakes.attention import Inputs, attend
from regard.learn.mistakes.causal import CAUSAL, visible_pairs, with_nan

MASKS = parts.without(
    parts.MASKS,
    "mask-transposed",
    "mask-not-broadcast",
    "mask-hides-rows",
    "first-mask-for-all",
    "mask-ignored",
    "renormalised-too-late:nan",
)
PARTS = {
    "size": ("square-only", "square-only:one-query"),
    "causal": CAUSAL,
    "mask": MASKS,
    "scale": parts.without(parts.SCALES, "scaled-by-axis"),
    "scores": parts.SCORES,
    "softmax": parts.SOFTMAXES,
    "maximum": parts.MAXIMUMS,
    "mix": parts.MIXES,
    "return": parts.RETURNS,
    "batch": parts.BATCHES[:-1],
}


def model(made, Q, K, V):
    parts.check_square(made, Q.shape[-2], K.shape[-2])
    L, S = Q.shape[-2], K.shape[-2]
    visible = visible_pairs(made, L, S)
    sizes = {"heads": Q.shape[1], "d_model": Q.shape[1] * Q.shape[-1], "batch": len(Q)}
    return attend(with_nan(made), Inputs(Q, K, V, np.broadcast_to(visible, (L, S)), sizes))
