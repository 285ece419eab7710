import torch


def causal_attention(Q, K, V):
    """(B, H, L, d_k), (B, H, S, d_k), (B, H, S, d_v) -> output (B, H, L, d_v), weights (B, H, L, S)."""
    L, S = Q.shape[-2], K.shape[-2]
    visible = torch.ones(L, S, dtype=torch.bool).tril(diagonal=S - L)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    scores = scores.masked_fill(~visible, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = weights.masked_fill(~visible, 0.0)  # a row that sees nothing is NaN until here
    return weights @ V, weights
