def drive(code, X, W_q, W_k, W_v):
    Q, K, V = code.compute_qkv(X, W_q, W_k, W_v)
    return Q, K, V, *code.self_attention(Q, K, V)
