import torch
from einops import rearrange


def split_heads(x, heads):
    folded = rearrange(x, "b s (h d) -> (b h) s d", h=heads)
    return rearrange(folded, "(b h) s d -> b h s d", h=heads)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


def packed_attention(qkv, heads):
    q, k, v = (rearrange(part, "b s (h d) -> (b h) s d", h=heads) for part in qkv.tensor_split(3, dim=-1))
    weights = torch.bmm(q / q.shape[-1] ** 0.5, k.mT).softmax(-1)
    return rearrange(torch.bmm(weights, v), "(b h) s d -> b s (h d)", h=heads)
