import numpy as np


def online_attention(query, keys, values, tile):
    """(d_k,), (S, d_k), (S, d_v), number of keys in a tile -> output (d_v,), log-sum-exp of the scores."""
    maximum, total, mixed = -np.inf, 0.0, np.zeros(values.shape[-1])
    for start in range(0, len(keys), tile):
        scores = keys[start : start + tile] @ query / np.sqrt(len(query))
        larger = max(maximum, scores.max())
        correction = np.exp(maximum - larger)  # 0 for the first tile
        exponentials = np.exp(scores - larger)
        total = total * correction + exponentials.sum()
        mixed = mixed * correction + exponentials @ values[start : start + tile]
        maximum = larger
    return mixed / total, maximum + np.log(total)
