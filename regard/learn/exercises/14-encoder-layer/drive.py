import torch.nn.functional as F


def drive(code, x, of_attention, of_norms, W_1, b_1, W_2, b_2):
    w_q, w_k, w_v, w_o = of_attention
    gamma_1, beta_1, gamma_2, beta_2 = of_norms
    D = x.shape[-1]

    def attention(y):
        return F.scaled_dot_product_attention(y @ w_q, y @ w_k, y @ w_v) @ w_o

    def norm_1(y):
        return F.layer_norm(y, (D,), gamma_1, beta_1)

    def norm_2(y):
        return F.layer_norm(y, (D,), gamma_2, beta_2)

    return code.encoder_layer(x, attention, norm_1, norm_2, W_1, b_1, W_2, b_2)
