def drive(code, x, qkv, heads):
    split = code.split_heads(x, heads)
    return split, code.merge_heads(split), code.packed_attention(qkv, heads)
