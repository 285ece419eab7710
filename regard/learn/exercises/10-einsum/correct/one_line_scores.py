import torch


def multi_head_einsum(x, W_q, W_k, W_v, W_o):
    scores = torch.einsum("bld,dhk,bse,ehk->bhls", x, W_q, x, W_k) * W_q.shape[-1] ** -0.5
    weights = torch.softmax(scores, -1)
    return torch.einsum("bhls,bsd,dhv,hvo->blo", weights, x, W_v, W_o), weights
