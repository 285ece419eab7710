import numpy as np


def softmax(x):
    """Softmax over the last axis of x, with the same shape."""
    shifted = x - x.max(axis=-1, keepdims=True)  # at most 0, so exp does not overflow
    exponentials = np.exp(shifted)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)
