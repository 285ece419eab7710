import numpy as np
from einops import rearrange


def attention(Q, K, V):
    scores = (Q / np.sqrt(Q.shape[-1])) @ rearrange(K, "... s d -> ... d s")
    e = np.exp(scores - scores.max(-1, keepdims=True))
    total = e.sum(-1, keepdims=True)
    return (e @ V) / total, e / total
