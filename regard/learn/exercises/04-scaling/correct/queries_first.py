import numpy as np


def scaled_scores(Q, K, scale=None):
    scaled = Q / np.sqrt(Q.shape[-1]) if scale is None else Q * scale
    return np.matmul(scaled, K.transpose(0, 2, 1))
