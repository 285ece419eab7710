import numpy as np


def masked_attention(Q, K, V, mask):
    """(..., L, d_k), (..., S, d_k), (..., S, d_v), True = visible -> output (..., L, d_v), weights (..., L, S)."""
    raise NotImplementedError
