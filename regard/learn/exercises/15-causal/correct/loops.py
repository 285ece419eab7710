import torch


def causal_attention(Q, K, V):
    L, S = Q.shape[-2], K.shape[-2]
    weights = torch.zeros(*Q.shape[:-1], S)
    for i in range(L):
        seen = i + S - L + 1
        if seen > 0:
            scores = torch.einsum("bhd,bhsd->bhs", Q[:, :, i], K[:, :, :seen]) / Q.shape[-1] ** 0.5
            weights[:, :, i, :seen] = scores.softmax(-1)
    return weights @ V, weights
