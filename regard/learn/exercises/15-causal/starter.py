import torch


def causal_attention(Q, K, V):
    """(B, H, L, d_k), (B, H, S, d_k), (B, H, S, d_v) -> output (B, H, L, d_v), weights (B, H, L, S)."""
    raise NotImplementedError
