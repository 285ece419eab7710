import torch


def causal_attention(Q, K, V):
    L, S = Q.shape[-2], K.shape[-2]
    hidden = torch.triu(torch.ones(L, S), diagonal=S - L + 1).bool()
    bias = torch.zeros(L, S).masked_fill(hidden, -torch.inf)
    scores = torch.matmul(Q / Q.shape[-1] ** 0.5, K.transpose(-2, -1)) + bias
    e = (scores - scores.amax(-1, keepdim=True).clamp(min=-1e9)).exp()
    weights = e / e.sum(-1, keepdim=True).clamp(min=1e-30)
    return weights @ V, weights
