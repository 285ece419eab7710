import numpy as np


def compute_qkv(X, W_q, W_k, W_v):
    """(S, D) and three weights -> Q (S, d_k), K (S, d_k), V (S, d_v)."""
    raise NotImplementedError


def self_attention(Q, K, V):
    """(S, d_k), (S, d_k), (S, d_v) -> output (S, d_v), weights (S, S)."""
    raise NotImplementedError
