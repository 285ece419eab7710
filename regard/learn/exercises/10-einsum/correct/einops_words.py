from einops import einsum


def multi_head_einsum(x, W_q, W_k, W_v, W_o):
    q = einsum(x, W_q, "batch query d, d head k -> batch head query k")
    k = einsum(x, W_k, "batch key d, d head k -> batch head key k")
    v = einsum(x, W_v, "batch key d, d head v -> batch head key v")
    scores = einsum(q, k, "batch head query k, batch head key k -> batch head query key") / W_q.shape[2] ** 0.5
    weights = scores.softmax(-1)
    output = einsum(weights, v, W_o, "batch head query key, batch head key v, head v out -> batch query out")
    return output, weights
