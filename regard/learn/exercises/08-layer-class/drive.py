import torch


def drive(code, parameters, n_heads, heads, mask_of_heads, x, mask):
    layer = code.MultiHeadAttention(x.shape[-1], n_heads)
    with torch.no_grad():
        for name in ("w_q", "w_k", "w_v", "w_o"):
            linear = getattr(layer, name)
            linear.weight.copy_(parameters[name])
            linear.bias.copy_(parameters[f"{name}.bias"])
        return *layer.scaled_dot_product_attention(*heads, mask_of_heads), *layer(x, mask)
