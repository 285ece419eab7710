import numpy as np


def attention(query, keys, values):
    """(d_k,), (S, d_k), (S, d_v) -> output (d_v,), weights (S,)."""
    scores = keys @ query / np.sqrt(query.shape[-1])  # (S,)
    exponentials = np.exp(scores - scores.max())
    weights = exponentials / exponentials.sum()
    return weights @ values, weights
