"""The exercise in NumPy, with the mistakes that can be made in each part."""

from regard.learn.mistakes import parts
from regard.learn.mistakes.normalise import softmax

PARTS = {"softmax": ("fixed-axis", *parts.without(parts.SOFTMAXES, "across-heads")), "maximum": parts.MAXIMUMS}


def model(made, x):
    return softmax(made, x)
