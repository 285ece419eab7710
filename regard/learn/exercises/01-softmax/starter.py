import numpy as np


def softmax(x):
    """Softmax over the last axis of x, with the same shape."""
    raise NotImplementedError
