import numpy as np


def compute_qkv(X, W_q, W_k, W_v):
    """(S, D) and three weights -> Q (S, d_k), K (S, d_k), V (S, d_v)."""
    return X @ W_q, X @ W_k, X @ W_v


def self_attention(Q, K, V):
    """(S, d_k), (S, d_k), (S, d_v) -> output (S, d_v), weights (S, S)."""
    scores = Q @ K.T / np.sqrt(Q.shape[-1])
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return weights @ V, weights
