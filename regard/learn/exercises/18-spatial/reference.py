import torch


def spatial_attention(x, W_qkv, W_out, heads):
    """(B, C, H, W), (3·C, C), (C, C), number of heads -> (B, C, H, W)."""
    B, C, H, W = x.shape
    if C % heads:
        raise ValueError(f"heads must divide the channels, got {heads} heads for {C} channels")
    d_k = C // heads
    qkv = torch.einsum("oc,bchw->bohw", W_qkv, x)
    q, k, v = qkv.reshape(B, 3, heads, d_k, H * W).unbind(dim=1)  # (B, heads, d_k, squares)
    scores = q.mT @ k / d_k**0.5  # (B, heads, query squares, key squares)
    mixed = v @ scores.softmax(dim=-1).mT
    return x + torch.einsum("oc,bchw->bohw", W_out, mixed.reshape(B, C, H, W))
