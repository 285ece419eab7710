class WrongReturn(Exception):
    """A function returns another number of values than the statement asks for."""


def unpack(function, value, count):
    if hasattr(value, "shape") or isinstance(value, dict) or not hasattr(value, "__iter__"):
        raise WrongReturn(f"{function}|{count}|{type(value).__name__}")
    values = list(value)
    if len(values) != count:
        raise WrongReturn(f"{function}|{count}|{len(values)}")
    return values


def drive(code, X, W_q, W_k, W_v):
    Q, K, V = unpack("compute_qkv", code.compute_qkv(X, W_q, W_k, W_v), 3)
    return Q, K, V, *unpack("self_attention", code.self_attention(Q, K, V), 2)
