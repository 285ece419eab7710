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
        raise NotImplementedError

    def forward(self, x, mask=None):
        """(B, S, D) -> output (B, S, D), weights (B, H, S, S)."""
        raise NotImplementedError
