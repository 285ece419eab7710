import numpy as np


def softmax(x):
    """Softmax over the last axis of x, with the same shape."""
    shifted = x - x.max(axis=-1, keepdims=True)  # exp of at most 0: nothing overflows
    exponentials = np.exp(shifted)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)
