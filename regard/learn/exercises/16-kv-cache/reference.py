import torch


def step(x, cache, W_q, W_k, W_v):
    """New tokens (B, T, D) and the cache so far, None at first -> output (B, T, d), the new cache."""
    q, k, v = x @ W_q, x @ W_k, x @ W_v
    if cache is not None:
        k = torch.cat([cache[0], k], dim=1)
        v = torch.cat([cache[1], v], dim=1)
    T, S = q.shape[1], k.shape[1]
    visible = torch.ones(T, S, dtype=torch.bool).tril(diagonal=S - T)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~visible, float("-inf"))
    output = scores.softmax(dim=-1) @ v
    return output, (k, v)
