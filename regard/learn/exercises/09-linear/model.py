"""The exercise in NumPy, with the mistakes that can be made in each part."""

import numpy as np

KINDS = (
    "bias-subtracted", "bias-doubled", "last-token-only", "relu-added", "first-sequence-only", "last-result-for-all",
    "tokens-averaged", "bias-once", "leaks", "shuffled", "reshaped", "only-last-computed",
    "not-transposed", "bias-multiplied", "tokens-reversed", "only-first-token", "transposed-reshape",
    "not-reshaped-back", "last-token-missing", "first-token-missing", "weight-reshaped",
)  # fmt: skip
PARTS = {
    "loop": ("no-bias-in-loop", *(f"{kind}:linear_loop" for kind in KINDS)),
    "reshape": ("no-bias-in-reshape", *(f"{kind}:linear_reshape" for kind in KINDS)),
}


def linear(mistake, x, weight, bias):
    B, S, D = x.shape
    y = x @ weight.T
    kind = mistake.partition(":")[0]
    if kind.startswith("no-bias"):
        return y
    full = y + bias
    results = {
        "bias-subtracted": lambda: y - bias,
        "bias-doubled": lambda: y + 2 * bias,
        "bias-multiplied": lambda: y * bias,
        "relu-added": lambda: np.maximum(full, 0),
        "first-sequence-only": lambda: np.broadcast_to(full[:1], full.shape),
        "last-result-for-all": lambda: np.broadcast_to(full[-1:], full.shape),
        "tokens-averaged": lambda: np.broadcast_to(full.mean(1, keepdims=True), full.shape),
        "leaks": lambda: x.cumsum(1) @ weight.T + bias,
        "shuffled": lambda: full.reshape(S, B, -1).swapaxes(0, 1),
        "transposed-reshape": lambda: x.swapaxes(0, 1).reshape(B, S, D) @ weight.T + bias,
        "reshaped": lambda: (weight @ x.reshape(D, B * S)).T.reshape(B, S, -1) + bias,
        "weight-reshaped": lambda: x @ weight.reshape(D, -1) + bias,
        "not-transposed": lambda: x @ weight + bias,
        "not-reshaped-back": lambda: full.reshape(B * S, -1),
        "tokens-reversed": lambda: full[:, ::-1],
    }
    if kind in results:
        return results[kind]()
    if kind == "bias-once":
        return np.concatenate([full[:, :1], y[:, 1:]], axis=1)
    if kind in ("last-token-missing", "first-token-missing"):
        kept = full.copy()
        kept[:, -1 if kind.startswith("last") else 0] = 0
        return kept
    if kind in ("last-token-only", "only-last-computed", "only-first-token"):
        kept = np.zeros_like(full)
        token = {"last-token-only": np.s_[:, -1], "only-last-computed": np.s_[-1:], "only-first-token": np.s_[:, 0]}[
            kind
        ]
        kept[token] = full[token]
        return kept
    return full


def model(made, x, weight, bias):
    return linear(made.get("loop", ""), x, weight, bias), linear(made.get("reshape", ""), x, weight, bias)
