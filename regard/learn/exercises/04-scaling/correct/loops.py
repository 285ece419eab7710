import math

import numpy as np


def scaled_scores(Q, K, scale=None):
    factor = scale if scale is not None else 1 / math.sqrt(Q.shape[2])
    result = np.zeros((Q.shape[0], Q.shape[1], K.shape[1]))
    for h, i, j in np.ndindex(result.shape):
        result[h, i, j] = factor * np.dot(Q[h, i], K[h, j])
    return result
