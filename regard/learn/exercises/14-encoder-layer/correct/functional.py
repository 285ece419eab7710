import torch.nn.functional as F


def encoder_layer(x, attention, norm_1, norm_2, W_1, b_1, W_2, b_2):
    x = norm_1(attention(x) + x)
    return norm_2(F.linear(F.relu(F.linear(x, W_1.T, b_1)), W_2.T, b_2) + x)
