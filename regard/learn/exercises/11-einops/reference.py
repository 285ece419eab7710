from einops import rearrange


def split_heads(x, heads):
    """(B, S, H·d_k) -> (B, H, S, d_k)."""
    return rearrange(x, "b s (h d) -> b h s d", h=heads)


def merge_heads(x):
    """(B, H, S, d_k) -> (B, S, H·d_k)."""
    return rearrange(x, "b h s d -> b s (h d)")


def packed_attention(qkv, heads):
    """(B, S, 3·D) -> (B, S, D)."""
    q, k, v = rearrange(qkv, "b s (three h d) -> three b h s d", three=3, h=heads)
    scores = q @ rearrange(k, "b h s d -> b h d s") / q.shape[-1] ** 0.5
    return merge_heads(scores.softmax(dim=-1) @ v)
