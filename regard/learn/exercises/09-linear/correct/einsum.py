import torch


def linear_loop(x, weight, bias):
    tokens = [token @ weight.T + bias for token in x.reshape(-1, x.shape[-1])]
    return torch.stack(tokens).view(*x.shape[:-1], -1)


def linear_reshape(x, weight, bias):
    return torch.einsum("bsd,od->bso", x, weight) + bias
