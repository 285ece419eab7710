import numpy as np


def scaled_scores(Q, K, scale=None):
    """(H, L, d_k), (H, S, d_k) -> (H, L, S)."""
    d_k = Q.shape[-1]
    if scale is None:
        scale = 1 / np.sqrt(d_k)
    return scale * (Q @ K.swapaxes(-1, -2))
