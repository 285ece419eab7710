import numpy as np


def multi_head_attention(Q, K, V, n_heads):
    outputs, weights = [], []
    for q, k, v in zip(*(np.split(x, n_heads, axis=-1) for x in (Q, K, V)), strict=True):
        scores = np.einsum("bld,bsd->bls", q, k) / np.sqrt(q.shape[-1])
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights.append(e / e.sum(axis=-1, keepdims=True))
        outputs.append(weights[-1] @ v)
    return np.concatenate(outputs, axis=-1), np.stack(weights, axis=1)
