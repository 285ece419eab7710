import torch


def sublayer(x, of_x, norm):
    return norm(x + of_x)


def encoder_layer(x, attention, norm_1, norm_2, W_1, b_1, W_2, b_2):
    x = sublayer(x, attention(x), norm_1)
    hidden = torch.einsum("bsd,df->bsf", x, W_1) + b_1
    return sublayer(x, torch.einsum("bsf,fd->bsd", hidden * (hidden > 0), W_2) + b_2, norm_2)
