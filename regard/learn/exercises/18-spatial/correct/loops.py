import torch


def spatial_attention(x, W_qkv, W_out, heads):
    B, C, H, W = x.shape
    d = C / heads
    if d != int(d):
        raise ValueError(f"{heads} heads, {C} channels: the first must divide the second")
    d = int(d)
    result = torch.empty_like(x)
    for b in range(B):
        board = x[b].flatten(1)
        q, k, v = (W_qkv @ board).split(C)
        mixed = torch.empty(C, H * W)
        for h in range(heads):
            part = slice(h * d, (h + 1) * d)
            for square in range(H * W):
                weights = (q[part, square] @ k[part] / d**0.5).softmax(0)
                mixed[part, square] = v[part] @ weights
        result[b] = x[b] + (W_out @ mixed).view(C, H, W)
    return result
