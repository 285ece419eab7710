import numpy as np


def masked_attention(Q, K, V, mask):
    scores = np.einsum("...ld,...sd->...ls", Q, K) / Q.shape[-1] ** 0.5
    top = np.max(scores, axis=-1, keepdims=True, where=mask, initial=-1e300)
    e = np.where(mask, np.exp(np.minimum(scores - top, 0)), 0.0)
    total = e.sum(-1, keepdims=True)
    weights = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    return weights @ V, weights
