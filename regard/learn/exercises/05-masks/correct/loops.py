import numpy as np


def masked_attention(Q, K, V, mask):
    shape = (*Q.shape[:-1], K.shape[-2])
    mask = np.broadcast_to(mask, shape)
    weights = np.zeros(shape)
    for row in np.ndindex(shape[:-1]):
        keys = K[row[:-1]]
        visible = [j for j in range(shape[-1]) if mask[row][j]]
        if visible:
            scores = np.array([Q[row] @ keys[j] for j in visible]) / np.sqrt(Q.shape[-1])
            e = np.exp(scores - scores.max())
            weights[row][visible] = e / e.sum()
    return weights @ V, weights
