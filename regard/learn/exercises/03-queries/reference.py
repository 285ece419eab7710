import numpy as np


def attention(Q, K, V):
    """(..., L, d_k), (..., S, d_k), (..., S, d_v) -> output (..., L, d_v), weights (..., L, S)."""
    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])  # (..., L, S)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return weights @ V, weights
