import numpy as np


def attention(Q, K, V):
    """(..., L, d_k), (..., S, d_k), (..., S, d_v) -> output (..., L, d_v), weights (..., L, S)."""
    raise NotImplementedError
