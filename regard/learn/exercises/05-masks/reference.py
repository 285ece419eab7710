import numpy as np


def masked_attention(Q, K, V, mask):
    """(..., L, d_k), (..., S, d_k), (..., S, d_v), True = visible -> output (..., L, d_v), weights (..., L, S)."""
    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])
    scores = np.where(mask, scores, -np.inf)
    maximum = scores.max(axis=-1, keepdims=True)
    maximum = np.where(np.isneginf(maximum), 0, maximum)  # nothing visible: −∞ − −∞ would be NaN
    exponentials = np.exp(scores - maximum)
    total = exponentials.sum(axis=-1, keepdims=True)
    weights = exponentials / np.where(total == 0, 1, total)
    return weights @ V, weights
