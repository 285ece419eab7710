"""The exercise in NumPy, with the mistakes that can be made in each part."""

import numpy as np

from regard.learn.mistakes.attention import Inputs, attend
from regard.learn.mistakes.normalise import layer_norm

PARTS = {
    "order": ("pre-norm", "norm-inside", "norm-around", "feed-forward-first", "pre-norm:first",
              "pre-norm:second", "norm-inside:first", "norm-inside:second", "pre-norm:residual"),
    "first": ("no-first-residual", "attention-missing", "attention-twice", "first-residual-twice"),
    "second": ("no-second-residual", "residual-from-the-start", "feed-forward-missing", "second-sublayer-missing",
               "second-residual-twice"),
    "activation": ("no-relu", "relu-too-late", "other-activation:GELU", "other-activation:GELU-tanh",
                   "other-activation:tanh", "other-activation:sigmoid", "other-activation:SiLU", "relu-before",
                   "other-activation:leaky", "relu-twice", "other-activation:softmax", "other-activation:ELU",
                   "relu-on-output", "other-activation:softplus", "other-activation:absolute"),
    "feed-forward": ("feed-forward-of-input", "no-first-bias", "no-second-bias", "no-biases", "bias-after-relu"),
    "norms": ("one-norm", "norms-swapped", "no-first-norm", "no-second-norm", "no-norms", "one-norm:second",
              "norm-twice"),
}  # fmt: skip


def activate(kind, y):
    from math import erf

    return {
        "GELU": lambda: 0.5 * y * (1 + np.vectorize(erf)(y / np.sqrt(2))),
        "GELU-tanh": lambda: 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3))),
        "tanh": lambda: np.tanh(y),
        "sigmoid": lambda: 1 / (1 + np.exp(-y)),
        "SiLU": lambda: y / (1 + np.exp(-y)),
        "leaky": lambda: np.where(y > 0, y, 0.01 * y),
        "softmax": lambda: np.exp(y) / np.exp(y).sum(-1, keepdims=True),
        "ELU": lambda: np.where(y > 0, y, np.expm1(np.minimum(y, 0))),
        "softplus": lambda: np.logaddexp(0, y),
        "absolute": lambda: np.abs(y),
    }[kind]()


def model(made, x, of_attention, of_norms, W_1, b_1, W_2, b_2):
    w_q, w_k, w_v, w_o = of_attention
    gamma_1, beta_1, gamma_2, beta_2 = of_norms

    def attention(y):
        return attend({}, Inputs(y @ w_q, y @ w_k, y @ w_v))[0] @ w_o

    def first_norm(y):
        return layer_norm(y, gamma_1, beta_1)

    def second_norm(y):
        return layer_norm(y, gamma_2, beta_2)

    def same(y):
        return y

    norm_1, norm_2 = {
        "one-norm": (first_norm, first_norm),
        "one-norm:second": (second_norm, second_norm),
        "norms-swapped": (second_norm, first_norm),
        "no-first-norm": (same, second_norm),
        "no-second-norm": (first_norm, same),
        "no-norms": (same, same),
        "norm-twice": (lambda y: first_norm(first_norm(y)), second_norm),
    }.get(made.get("norms"), (first_norm, second_norm))
    activation, biases = made.get("activation", ""), made.get("feed-forward")
    bias_1 = 0 if biases in ("no-first-bias", "no-biases") else b_1
    bias_2 = 0 if biases in ("no-second-bias", "no-biases") else b_2

    def feed_forward(y):
        if activation == "relu-before":
            return (np.maximum(y, 0) @ W_1 + bias_1) @ W_2 + bias_2
        z = y @ W_1 + (0 if biases == "bias-after-relu" else bias_1)
        if activation.startswith("other-activation"):
            z = activate(activation.partition(":")[2], z)
        elif activation not in ("no-relu", "relu-too-late"):
            z = np.maximum(z, 0)
        z = (z + b_1 if biases == "bias-after-relu" else z) @ W_2 + bias_2
        return np.maximum(z, 0) if activation in ("relu-too-late", "relu-twice") else z

    first, second, order = made.get("first"), made.get("second"), made.get("order", "")
    source = attention(attention(x)) if first == "attention-twice" else attention
    residual_1 = {"no-first-residual": 0, "first-residual-twice": 2}.get(first, 1)
    residual_2 = {"no-second-residual": 0, "second-residual-twice": 2, "residual-from-the-start": 0}.get(second, 1)

    def attended(y):
        return 0 * y if first == "attention-missing" else source if first == "attention-twice" else attention(y)

    if order in ("pre-norm", "pre-norm:first"):
        a = residual_1 * x + attended(norm_1(x))
    elif order == "pre-norm:residual":
        n = norm_1(x)
        a = residual_1 * n + attended(n)
    elif order in ("norm-inside", "norm-inside:first"):
        a = residual_1 * x + norm_1(attended(x))
    elif order == "norm-around":
        a = norm_1(x) + attended(x)
    elif order == "feed-forward-first":
        a = norm_1(residual_1 * x + feed_forward(x))
        return norm_2(residual_2 * a + attended(a))
    else:
        a = norm_1(residual_1 * x + attended(x))
    if second == "second-sublayer-missing":
        return a
    start = x if second == "residual-from-the-start" else 0
    fed = feed_forward(x if biases == "feed-forward-of-input" else
                       norm_2(a) if order in ("pre-norm", "pre-norm:second", "pre-norm:residual") else a)  # fmt: skip
    if second == "feed-forward-missing":
        fed = 0 * a
    if order in ("pre-norm", "pre-norm:second"):
        y = residual_2 * a + start + fed
    elif order == "pre-norm:residual":
        y = residual_2 * norm_2(a) + start + fed
    elif order in ("norm-inside", "norm-inside:second"):
        y = residual_2 * a + start + norm_2(fed)
    else:
        y = norm_2(residual_2 * a + start + fed)
    return np.maximum(y, 0) if activation == "relu-on-output" else y
