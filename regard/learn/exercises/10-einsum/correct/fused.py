import torch
import torch.nn.functional as F


def multi_head_einsum(x, W_q, W_k, W_v, W_o):
    q, k, v = (torch.einsum("bsd,dhk->bhsk", x, W) for W in (W_q, W_k, W_v))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bhsv,hvd->bsd", F.scaled_dot_product_attention(q, k, v), W_o), weights
