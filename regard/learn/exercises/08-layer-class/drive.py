import torch


class WrongReturn(Exception):
    """A method returns another number of values than the statement asks for."""


def unpack(method, value):
    if hasattr(value, "shape") or isinstance(value, dict) or not hasattr(value, "__iter__"):
        raise WrongReturn(f"{method}|2|{type(value).__name__}")
    values = list(value)
    if len(values) != 2:
        raise WrongReturn(f"{method}|2|{len(values)}")
    return values


def drive(code, parameters, n_heads, heads, mask_of_heads, x, mask):
    layer = code.MultiHeadAttention(x.shape[-1], n_heads)
    with torch.no_grad():
        for name in ("w_q", "w_k", "w_v", "w_o"):
            linear = getattr(layer, name)
            linear.weight.copy_(parameters[name])
            if linear.bias is None:
                raise AttributeError(
                    f"{name} has no bias; keep the layers of the template: nn.Linear(d_model, d_model)"
                )
            linear.bias.copy_(parameters[f"{name}.bias"])
        of_heads = unpack("scaled_dot_product_attention", layer.scaled_dot_product_attention(*heads, mask_of_heads))
        return *of_heads, *unpack("forward", layer(x, mask))
