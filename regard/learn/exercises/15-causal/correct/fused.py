import torch
import torch.nn.functional as F


def causal_attention(Q, K, V):
    L, S = Q.shape[-2], K.shape[-2]
    seen = torch.arange(S) <= torch.arange(L)[:, None] + S - L
    scores = torch.where(seen, Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5, -torch.inf)
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=seen), scores.softmax(-1).nan_to_num(0.0)
