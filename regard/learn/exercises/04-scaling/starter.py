import numpy as np


def scaled_scores(Q, K, scale=None):
    """(H, L, d_k), (H, S, d_k) -> (H, L, S)."""
    raise NotImplementedError
