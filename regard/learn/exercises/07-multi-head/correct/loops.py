import numpy as np


def multi_head_attention(Q, K, V, n_heads):
    B, L, D = Q.shape
    S, d_k = K.shape[1], D // n_heads
    output, weights = np.zeros((B, L, D)), np.zeros((B, n_heads, L, S))
    for b in range(B):
        for h in range(n_heads):
            columns = slice(h * d_k, (h + 1) * d_k)
            for i in range(L):
                scores = np.array([Q[b, i, columns] @ K[b, j, columns] for j in range(S)]) / np.sqrt(d_k)
                e = np.exp(scores - scores.max())
                weights[b, h, i] = e / e.sum()
                output[b, i, columns] = weights[b, h, i] @ V[b, :, columns]
    return output, weights
