from einops import rearrange


def split_heads(x, heads):
    """(B, S, H·d_k) -> (B, H, S, d_k)."""
    raise NotImplementedError


def merge_heads(x):
    """(B, H, S, d_k) -> (B, S, H·d_k)."""
    raise NotImplementedError


def packed_attention(qkv, heads):
    """(B, S, 3·D) -> (B, S, D)."""
    raise NotImplementedError
