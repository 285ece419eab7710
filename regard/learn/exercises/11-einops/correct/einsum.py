from einops import einsum, rearrange


def split_heads(x, heads):
    return rearrange(x, "... s (h d) -> ... h s d", h=heads)


def merge_heads(x):
    return rearrange(x, "... h s d -> ... s (h d)")


def packed_attention(qkv, heads):
    q, k, v = rearrange(qkv, "b s (n h d) -> n b s h d", n=3, h=heads)
    weights = (einsum(q, k, "b l h d, b s h d -> b h l s") * q.shape[-1] ** -0.5).softmax(-1)
    return rearrange(einsum(weights, v, "b h l s, b s h d -> b l h d"), "b l h d -> b l (h d)")
