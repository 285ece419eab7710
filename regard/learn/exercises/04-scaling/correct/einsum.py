import numpy as np


def scaled_scores(Q, K, scale=None):
    scale = Q.shape[-1] ** -0.5 if scale is None else scale
    return np.einsum("hld,hsd->hls", Q, K) * scale
