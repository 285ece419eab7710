import torch


def step(x, cache, W_q, W_k, W_v):
    everything = x if cache is None else torch.cat([cache, x], dim=1)
    scores = torch.einsum("bld,bsd->bls", x @ W_q, everything @ W_k) / W_q.shape[-1] ** 0.5
    T, S = scores.shape[1:]
    ahead = torch.ones(T, S).triu(S - T + 1).bool()
    return torch.where(ahead, -torch.inf, scores).softmax(-1) @ (everything @ W_v), everything
