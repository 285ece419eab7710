import torch


def encoder_layer(x, attention, norm_1, norm_2, W_1, b_1, W_2, b_2):
    a = norm_1(x + attention(x))
    fed = torch.zeros_like(a)
    for b in range(a.shape[0]):
        for s in range(a.shape[1]):
            fed[b, s] = (a[b, s] @ W_1 + b_1).clamp(min=0) @ W_2 + b_2
    return norm_2(a + fed)
