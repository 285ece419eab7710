import numpy as np


def online_attention(query, keys, values, tile):
    output, lse = np.zeros(values.shape[1]), -np.inf
    for i in range((len(keys) + tile - 1) // tile):
        part = slice(i * tile, (i + 1) * tile)
        scores = np.einsum("sd,d->s", keys[part], query) * len(query) ** -0.5
        own = np.logaddexp.reduce(scores)
        together = np.logaddexp(lse, own)
        output = np.exp(lse - together) * output + np.exp(scores - together) @ values[part]
        lse = together
    return output, lse
