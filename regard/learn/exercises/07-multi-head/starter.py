import numpy as np


def multi_head_attention(Q, K, V, n_heads):
    """(B, L, D), (B, S, D), (B, S, D) -> output (B, L, D), weights (B, H, L, S)."""
    raise NotImplementedError
