import torch


def multi_head_einsum(x, W_q, W_k, W_v, W_o):
    """(B, S, D) and weights with an axis for heads -> output (B, S, D_out), weights (B, H, S, S)."""
    Q = torch.einsum("bsd,dhk->bhsk", x, W_q)
    K = torch.einsum("bsd,dhk->bhsk", x, W_k)
    V = torch.einsum("bsd,dhv->bhsv", x, W_v)
    scores = torch.einsum("bhlk,bhsk->bhls", Q, K) / Q.shape[-1] ** 0.5
    weights = scores.softmax(dim=-1)
    mixed = torch.einsum("bhls,bhsv->bhlv", weights, V)
    return torch.einsum("bhlv,hvd->bld", mixed, W_o), weights
