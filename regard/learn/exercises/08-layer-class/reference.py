import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_model, self.n_heads, self.d_k = d_model, n_heads, d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def scaled_dot_product_attention(self, Q, K, V, mask=None):
        """Heads (B, H, L, d_k), (B, H, S, d_k), (B, H, S, d_k) -> output (B, H, L, d_k), weights (B, H, L, S)."""
        scores = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)  # an empty row is NaN until here
        return weights @ V, weights

    def forward(self, x, mask=None):
        """(B, S, D) -> output (B, S, D), weights (B, H, S, S)."""
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        mixed, weights = self.scaled_dot_product_attention(q, k, v, mask)
        merged = mixed.transpose(1, 2).reshape(x.shape)
        return self.w_o(merged), weights

    def split(self, x):
        B, S, _ = x.shape
        return x.view(B, S, self.n_heads, self.d_k).transpose(1, 2)
