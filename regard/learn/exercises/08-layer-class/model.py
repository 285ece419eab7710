"""The exercise in NumPy, with the mistakes that can be made in each part."""

import numpy as np

from regard.learn.mistakes import heads, parts
from regard.learn.mistakes.attention import Inputs, attend
from regard.learn.mistakes.projections import PROJECTIONS, project

PARTS = {
    "split": heads.SPLITS,
    "merge": heads.MERGES,
    "mask": (*parts.without(parts.MASKS, "renormalised-too-late:"), "mask-ignored:forward", "always-causal"),
    "scale": parts.without(parts.SCALES, "scaled-by-axis"),
    "projection": (*PROJECTIONS, "no-bias"),
    "output": (
        "no-output-projection",
        "output-projection-transposed",
        "output-bias-missing",
        "residual-added",
        "output-projection-of-input",
        "activation-on-output:forward",
    ),
    "scores": parts.SCORES,
    "softmax": parts.SOFTMAXES,
    "maximum": parts.MAXIMUMS,
    "mix": parts.MIXES,
    "heads": heads.HEADS,
    "return": (*parts.RETURNS, "averaged-weights:forward"),
}


def model(made, parameters, n_heads, heads_of, mask_of_heads, x, mask):
    sizes = {"heads": n_heads, "d_model": x.shape[-1], "batch": len(x)}
    only_forward = {"mask": ("mask-ignored:forward", "always-causal"), "return": ("averaged-weights:forward",)}
    in_method = {part: mistake for part, mistake in made.items() if mistake not in only_forward.get(part, ())}
    first = attend(in_method, Inputs(*heads_of, mask_of_heads, sizes))

    def linear(name, bias=True):
        return lambda y: y @ parameters[name].T + (parameters[f"{name}.bias"] if bias else 0)

    bias = made.get("projection") != "no-bias"
    q, k, v = project(made, x, *(linear(name, bias) for name in ("w_q", "w_k", "w_v")))
    q, k, v = (heads.split(made, y, n_heads, which) for y, which in ((q, "queries"), (k, "keys"), (v, "values")))
    if made.get("mask") == "mask-ignored:forward":
        mask = None
    elif made.get("mask") == "always-causal":
        mask = np.tri(x.shape[1], dtype=bool) & (True if mask is None else mask)
    mixed, weights = attend(in_method, Inputs(q, k, v, mask, sizes))
    merged = heads.merge(made, mixed)
    if made.get("return") == "averaged-weights:forward":
        weights = weights.mean(axis=1)
    output, w_o = made.get("output"), parameters["w_o"]
    if output == "no-output-projection":
        return *first, merged, weights
    if output == "output-projection-of-input":
        merged = x
    result = merged @ (w_o if output == "output-projection-transposed" else w_o.T)
    result = result + (0 if output == "output-bias-missing" else parameters["w_o.bias"])
    if output == "activation-on-output:forward":
        result = np.maximum(result, 0)
    return *first, result + (x if output == "residual-added" else 0), weights
