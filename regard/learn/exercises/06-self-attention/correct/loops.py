import numpy as np


def project(X, W):
    return np.array([[sum(x * w for x, w in zip(row, column, strict=True)) for column in W.T] for row in X])


def compute_qkv(X, W_q, W_k, W_v):
    return project(X, W_q), project(X, W_k), project(X, W_v)


def self_attention(Q, K, V):
    S, d_k = Q.shape
    weights = np.zeros((S, S))
    for i in range(S):
        scores = [Q[i] @ K[j] / d_k**0.5 for j in range(S)]
        e = [np.exp(score - max(scores)) for score in scores]
        weights[i] = np.array(e) / sum(e)
    return np.stack([weights[i] @ V for i in range(S)]), weights
