import torch


def encoder_layer(x, attention, norm_1, norm_2, W_1, b_1, W_2, b_2):
    """(B, S, D) -> (B, S, D): attention and feed-forward, each with a residual and a norm after it."""
    raise NotImplementedError
