"""The exercise in NumPy, with the mistakes that can be made in each part."""

import numpy as np

PARTS = {
    "axis": ("batch-norm", "whole-sequence", "whole-array", "no-keepdims", "no-keepdims:mean", "no-keepdims:variance",
             "fixed-axis", "batch-norm:mean", "batch-norm:variance"),
    "variance": ("unbiased", "no-root", "variance-missing", "mean-absolute", "not-averaged"),
    "mean": ("mean-not-subtracted", "rms"),
    "eps": ("eps-outside", "no-eps", "eps-fixed", "eps-fixed:1e-6", "eps-fixed:1e-8", "eps-fixed:1e-12", "eps-squared",
            "eps-fixed:1e-5-outside", "eps-after", "eps-as-minimum", "other-default-eps:1e-6",
            "other-default-eps:1e-8", "other-default-eps:1e-12", "other-default-eps:1e-3", "other-default-eps:0"),
    "affine": ("swapped", "no-affine", "no-beta", "no-gamma", "beta-before-gamma", "beta-subtracted", "gamma-plus-one",
               "gamma-divided", "affine-before"),
}  # fmt: skip


def model(made, x, gamma, beta, eps=None):
    if eps is None:
        mistake = made.get("eps", "")
        eps = float(mistake.partition(":")[2]) if mistake.startswith("other-default") else 1e-5
    if made.get("affine") == "affine-before":
        x = gamma * x + beta
    axis, which = -1, made.get("axis", "")
    if which == "whole-sequence":
        axis = tuple(range(x.ndim))[-2:]
    elif which == "whole-array":
        axis = tuple(range(x.ndim))
    elif which == "fixed-axis":
        axis = 1
    mean_axis = 0 if which in ("batch-norm", "batch-norm:mean") else axis
    variance_axis = 0 if which in ("batch-norm", "batch-norm:variance") else axis
    mean = x.mean(mean_axis, keepdims=which not in ("no-keepdims", "no-keepdims:mean"))
    keep = which not in ("no-keepdims", "no-keepdims:variance")
    about = made.get("mean")
    centre = 0.0 if about in ("mean-not-subtracted", "rms") else mean
    kind, how = made.get("variance"), made.get("eps", "")
    if about == "rms":
        variance = (x**2).mean(variance_axis, keepdims=True)
    elif kind == "mean-absolute":
        variance = np.abs(x - mean).mean(variance_axis, keepdims=True) ** 2
    else:
        variance = x.var(variance_axis, keepdims=keep, ddof=1 if kind == "unbiased" else 0)
    if kind == "not-averaged":
        variance = variance * x.shape[-1]
    if how.startswith("eps-fixed"):
        eps = float(how.removesuffix("-outside").partition(":")[2] or 1e-5)
    root = (lambda v: v) if kind in ("no-root",) else np.sqrt
    scale = {
        "eps-outside": lambda: root(variance) + eps,
        "eps-fixed:1e-5-outside": lambda: root(variance) + eps,
        "no-eps": lambda: root(variance),
        "eps-squared": lambda: root(variance + eps**2),
        "eps-after": lambda: root(variance),
        "eps-as-minimum": lambda: np.maximum(root(variance), eps),
    }.get(how, lambda: root(variance + eps))()
    normalised = (x - centre) if kind == "variance-missing" else (x - centre) / scale
    if how == "eps-after":
        normalised = normalised + eps
    return {
        "swapped": lambda: beta * normalised + gamma,
        "no-affine": lambda: normalised,
        "affine-before": lambda: normalised,
        "no-beta": lambda: gamma * normalised,
        "no-gamma": lambda: normalised + beta,
        "beta-before-gamma": lambda: gamma * (normalised + beta),
        "beta-subtracted": lambda: gamma * normalised - beta,
        "gamma-plus-one": lambda: (1 + gamma) * normalised + beta,
        "gamma-divided": lambda: normalised / gamma + beta,
    }.get(made.get("affine"), lambda: gamma * normalised + beta)()
