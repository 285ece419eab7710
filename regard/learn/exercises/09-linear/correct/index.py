import torch


def linear_loop(x, weight, bias):
    B, S, _ = x.shape
    result = torch.empty(B, S, len(bias))
    for b in range(B):
        for s in range(S):
            for o in range(len(bias)):
                result[b, s, o] = (weight[o] * x[b, s]).sum() + bias[o]
    return result


def linear_reshape(x, weight, bias):
    return torch.addmm(bias, x.flatten(0, 1), weight.t()).unflatten(0, x.shape[:2])
