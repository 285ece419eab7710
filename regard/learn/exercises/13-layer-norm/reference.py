import numpy as np


def layer_norm(x, gamma, beta, eps=1e-5):
    """(..., D), (D,), (D,) -> (..., D), normalised over the last axis."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    normalised = (x - mean) / np.sqrt(variance + eps)
    return gamma * normalised + beta
