import torch.nn.functional as F
from einops import rearrange


def split_heads(x, heads):
    return rearrange(x, "batch token (head width) -> batch head token width", head=heads)


def merge_heads(x):
    return rearrange(x, "batch head token width -> batch token (head width)")


def packed_attention(qkv, heads):
    q, k, v = (split_heads(part, heads) for part in qkv.chunk(3, dim=-1))
    return merge_heads(F.scaled_dot_product_attention(q, k, v))
