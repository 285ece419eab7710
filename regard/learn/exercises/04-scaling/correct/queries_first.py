import numpy as np


def scaled_scores(Q, K, scale=None):
    if scale is None:
        Q = Q / np.sqrt(Q.shape[-1])
    else:
        Q = Q * scale
    return np.matmul(Q, K.transpose(0, 2, 1))
