import torch
from einops import rearrange
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def scaled_dot_product_attention(self, Q, K, V, mask=None):
        scores = (Q * Q.shape[-1] ** -0.5) @ rearrange(K, "b h s d -> b h d s")
        if mask is not None:
            scores = torch.where(mask, scores, -torch.inf)
        e = torch.exp(scores - scores.amax(-1, keepdim=True).clamp(min=-1e30))
        weights = e / e.sum(-1, keepdim=True).clamp(min=1e-30)
        return weights @ V, weights

    def forward(self, x, mask=None):
        q, k, v = (rearrange(w(x), "b s (h d) -> b h s d", h=self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        mixed, weights = self.scaled_dot_product_attention(q, k, v, mask)
        return self.w_o(rearrange(mixed, "b h s d -> b s (h d)")), weights
