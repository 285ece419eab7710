import torch.nn.functional as F


def spatial_attention(x, W_qkv, W_out, heads):
    B, C, H, W = x.shape
    if C % heads != 0:
        raise ValueError(f"{C} channels do not split into {heads} heads")
    qkv = F.conv2d(x, W_qkv[:, :, None, None])
    q, k, v = (part.reshape(B, heads, C // heads, H * W).transpose(2, 3) for part in qkv.chunk(3, dim=1))
    mixed = F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(B, C, H, W)
    return F.conv2d(mixed, W_out[:, :, None, None]) + x
