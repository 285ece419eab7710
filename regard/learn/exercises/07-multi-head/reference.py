import numpy as np


def split(x, n_heads):
    B, length, D = x.shape
    return x.reshape(B, length, n_heads, D // n_heads).swapaxes(1, 2)  # (B, H, length, d_k)


def multi_head_attention(Q, K, V, n_heads):
    """(B, L, D), (B, S, D), (B, S, D) -> output (B, L, D), weights (B, H, L, S)."""
    q, k, v = split(Q, n_heads), split(K, n_heads), split(V, n_heads)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    mixed = weights @ v  # (B, H, L, d_k)
    return mixed.swapaxes(1, 2).reshape(Q.shape), weights
