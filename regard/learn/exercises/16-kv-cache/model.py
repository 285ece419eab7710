"""The exercise in NumPy, with the mistakes that can be made in each part."""

import numpy as np

from regard.learn.mistakes import parts
from regard.learn.mistakes.attention import Inputs, attend
from regard.learn.mistakes.causal import CAUSAL, visible_pairs, with_nan
from regard.learn.mistakes.projections import PROJECTIONS, project

INDEPENDENT_VALUES = False  # all three come from the same function
PARTS = {
    "cache": ("overwritten", "stale", "prepended", "changed-in-place", "twice", "values-not-cached", "keys-not-cached",
              "concatenated-along-batch", "cache-of-last-token", "new-tokens-left-out",
              "cache-swapped", "mask-only-at-first", "last-chunk-only"),
    "causal": [name for name in CAUSAL if name != "wrong-shift"],
    "mask": parts.without(parts.MASKS, "mask-transposed", "mask-not-broadcast", "mask-hides-rows",
        "first-mask-for-all", "mask-ignored",
                          "output-unmasked", "mask-on-output-only", "renormalised-too-late:"),
    "scale": parts.without(parts.SCALES, "scaled-by-axis", "scaled-by-values", "divided-by-values"),
    "projection": PROJECTIONS,
    "scores": parts.SCORES,
    "softmax": parts.SOFTMAXES,
    "maximum": parts.MAXIMUMS,
    "mix": parts.MIXES,
    "batch": parts.BATCHES[:-1],
}  # fmt: skip


def step(made, x, cache, W_q, W_k, W_v):
    q, k, v = project(made, x, *(lambda y, W=W: y @ W for W in (W_q, W_k, W_v)))
    mistake, new = made.get("cache"), (k, v)
    if cache is not None and mistake != "overwritten":
        axis = 0 if mistake == "concatenated-along-batch" else 1
        if mistake == "prepended":
            k, v = np.concatenate([k, cache[0]], 1), np.concatenate([v, cache[1]], 1)
        elif mistake == "cache-swapped":
            k, v = np.concatenate([cache[1], k], 1), np.concatenate([cache[0], v], 1)
        elif mistake == "twice":
            k, v = np.concatenate([cache[0], k, k], 1), np.concatenate([cache[1], v, v], 1)
        else:
            old_k = 0 * cache[0] if mistake == "keys-not-cached" else cache[0]
            old_v = 0 * cache[1] if mistake == "values-not-cached" else cache[1]
            k, v = np.concatenate([old_k, k], axis), np.concatenate([old_v, v], axis)
    stored = (k, v)
    if mistake == "new-tokens-left-out" and cache is not None:
        k, v = cache
    T, S = q.shape[1], k.shape[1]
    visible = visible_pairs(made, T, S)
    if mistake == "mask-only-at-first" and cache is not None:
        visible = np.ones((T, S), dtype=bool)
    sizes = {"d_model": x.shape[-1], "batch": len(x)}
    output, _ = attend(with_nan(made), Inputs(q, k, v, visible, sizes))
    if mistake == "stale" and cache is not None:
        return output, cache
    if mistake == "last-chunk-only":
        return output, new
    if mistake == "cache-of-last-token":
        return output, new if cache is None else (np.concatenate([cache[0], new[0]], 1)[:, -1:],
                                                  np.concatenate([cache[1], new[1]], 1)[:, -1:])  # fmt: skip
    return output, stored


def model(made, x, chunks, other, W_q, W_k, W_v):
    cache, outputs, start = None, [], 0
    for length in chunks:
        output, cache = step(made, x[:, start : start + length], cache, W_q, W_k, W_v)
        outputs.append(output)
        start += length
    first, after = step(made, other, cache, W_q, W_k, W_v)
    second, _ = step(made, other, after if made.get("cache") == "changed-in-place" else cache, W_q, W_k, W_v)
    return np.concatenate(outputs, 1), first, second
