import numpy as np


def online_attention(query, keys, values, tile):
    parts = []
    for start in range(0, len(keys), tile):
        scores = keys[start : start + tile] @ query / np.sqrt(query.size)
        top = scores.max()
        e = np.exp(scores - top)
        parts.append((top, e.sum(), e @ values[start : start + tile]))
    top = max(part[0] for part in parts)
    total = sum(np.exp(m - top) * s for m, s, _ in parts)
    mixed = sum(np.exp(m - top) * a for m, _, a in parts)
    return mixed / total, top + np.log(total)
