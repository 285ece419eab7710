import torch
import torch.nn.functional as F


def step(x, cache, W_q, W_k, W_v):
    k, v = x @ W_k, x @ W_v
    if cache:
        k, v = torch.hstack([cache["k"], k]), torch.hstack([cache["v"], v])
    T, S = x.shape[1], k.shape[1]
    seen = torch.arange(S) <= torch.arange(S - T, S)[:, None]
    return F.scaled_dot_product_attention(x @ W_q, k, v, attn_mask=seen), {"k": k, "v": v}
