import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def scaled_dot_product_attention(self, Q, K, V, mask=None):
        output = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
        scores = Q @ K.mT * Q.shape[-1] ** -0.5
        if mask is None:
            return output, scores.softmax(-1)
        weights = scores.masked_fill(mask.logical_not(), float("-inf")).softmax(-1).nan_to_num(0.0)
        return output, weights

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        mixed, weights = self.scaled_dot_product_attention(q, k, v, mask)
        return self.w_o(mixed.transpose(1, 2).flatten(2)), weights
