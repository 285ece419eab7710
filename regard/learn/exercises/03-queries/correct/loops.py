import numpy as np


def attention(Q, K, V):
    if Q.ndim == 3:
        pairs = [attention(q, k, v) for q, k, v in zip(Q, K, V, strict=True)]
        return np.stack([output for output, _ in pairs]), np.stack([weights for _, weights in pairs])
    outputs, rows = [], []
    for q in Q:
        scores = np.array([q @ k for k in K]) / np.sqrt(len(q))
        e = np.exp(scores - scores.max())
        rows.append(e / e.sum())
        outputs.append(sum(w * v for w, v in zip(rows[-1], V, strict=True)))
    return np.array(outputs), np.array(rows)
