import torch


def encoder_layer(x, attention, norm_1, norm_2, W_1, b_1, W_2, b_2):
    """(B, S, D) -> (B, S, D): attention and feed-forward, each with a residual and a norm after it."""
    a = norm_1(x + attention(x))
    hidden = torch.relu(a @ W_1 + b_1)  # (B, S, d_ff)
    return norm_2(a + hidden @ W_2 + b_2)
