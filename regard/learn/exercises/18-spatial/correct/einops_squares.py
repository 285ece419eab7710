from einops import einsum, rearrange


def spatial_attention(x, W_qkv, W_out, heads):
    if x.shape[1] % heads:
        raise ValueError(f"got {heads} heads for {x.shape[1]} channels")
    tokens = rearrange(x, "b c h w -> b (h w) c")
    q, k, v = rearrange(tokens @ W_qkv.T, "b s (three head d) -> three b head s d", three=3, head=heads)
    weights = (einsum(q, k, "b head l d, b head s d -> b head l s") / q.shape[-1] ** 0.5).softmax(-1)
    mixed = rearrange(weights @ v, "b head s d -> b s (head d)")
    return x + rearrange(mixed @ W_out.T, "b (h w) c -> b c h w", h=x.shape[2])
