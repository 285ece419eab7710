import numpy as np
from einops import einsum, rearrange


def multi_head_attention(Q, K, V, n_heads):
    q, k, v = (rearrange(x, "b n (h d) -> b h n d", h=n_heads) for x in (Q, K, V))
    scores = einsum(q, k, "b h l d, b h s d -> b h l s") / q.shape[-1] ** 0.5
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    return rearrange(weights @ v, "b h l d -> b l (h d)"), weights
