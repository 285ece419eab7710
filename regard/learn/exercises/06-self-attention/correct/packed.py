import numpy as np


def compute_qkv(X, W_q, W_k, W_v):
    packed = X @ np.concatenate([W_q, W_k, W_v], axis=1)
    d_k = W_q.shape[1]
    return packed[:, :d_k], packed[:, d_k : 2 * d_k], packed[:, 2 * d_k :]


def self_attention(Q, K, V):
    scores = np.dot(Q / np.sqrt(K.shape[1]), K.T)
    e = np.exp(scores - scores.max(axis=1)[:, None])
    weights = e / e.sum(axis=1)[:, None]
    return weights.dot(V), weights
