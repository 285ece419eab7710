"""The exercise in NumPy, with the mistakes that can be made in each part."""

from regard.learn.mistakes import parts
from regard.learn.mistakes.attention import Inputs, attend

PARTS = {
    "scale": parts.without(parts.SCALES, "scaled-by-axis", "scaled-by-queries"),
    "scores": parts.SCORES,
    "softmax": parts.without(parts.SOFTMAXES, "across-heads"),
    "maximum": parts.MAXIMUMS,
    "mix": parts.MIXES,
    "return": parts.RETURNS,
}


def model(made, query, keys, values):
    output, weights = attend(made, Inputs(query[None], keys, values))
    return output[0], weights[0]
