import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h, self.d = n_heads, d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def scaled_dot_product_attention(self, Q, K, V, mask=None):
        scores = torch.einsum("bhld,bhsd->bhls", Q, K) / self.d**0.5
        mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
        weights = torch.zeros_like(scores)
        for b in range(scores.shape[0]):
            for h in range(scores.shape[1]):
                for i in range(scores.shape[2]):
                    seen = mask[b, h, i]
                    if seen.any():
                        weights[b, h, i, seen] = scores[b, h, i, seen].softmax(0)
        return weights @ V, weights

    def forward(self, x, mask=None):
        def split(y):
            return torch.stack(y.split(self.d, dim=-1), dim=1)

        mixed, weights = self.scaled_dot_product_attention(
            split(self.w_q(x)), split(self.w_k(x)), split(self.w_v(x)), mask
        )
        return self.w_o(torch.cat(list(mixed.unbind(1)), dim=-1)), weights
