"""Parts of a computation and the mistakes that can be made in them.

`Made` maps a part to the mistake made in it; a part that is not in the mapping is computed correctly. The name of a
mistake may have a detail after a colon: "clipped:500" is the mistake "clipped" with the limit 500.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Made = Mapping[str, str]
Parts = Mapping[str, Sequence[str]]

RIGHT: Made = {}
SCALES = (
    "unscaled", "divided-by-d_k", "scaled-by-d_model", "scaled-by-values", "scaled-by-keys", "multiplied-by-root",
    "scaled-by-heads", "scaled-by-queries", "scaled-after-softmax", "multiplied-by-d_k", "divided-by-d_model",
    "divided-by-keys", "fourth-root", "scaled-by-packed", "scaled-by-batch", "divided-by-values", "divided-by-heads",
    "scaled-after-softmax:multiplied", "divided-twice",
    "scaled-by-logarithm", "scaled-by-axis-1", "scaled-by-axis-0",
)  # fmt: skip
SCORES = (
    "scores-transposed", "cosine", "cosine:scaled", "cosine:plain", "cosine:scaled-plain", "distance", "distance:root",
    "distance:positive", "distance:absolute", "reshaped", "reversed-axes", "missing-transpose", "keys-with-keys",
    "queries-with-queries",
    "values-as-keys", "negated", "absolute", "keys-normalised", "keys-normalised:queries", "outer-product",
    "dot-of-batches",
)  # fmt: skip
CLIPS = (10, 20, 30, 50, 80, 88, 100, 300, 500, 600, 700, 709)
MAXIMUMS = (
    "unstable", "unstable:multiplied", "unstable:chosen", "one-maximum-for-all", "minimum", "mean-subtracted",
    "mean-subtracted:all",
    "maximum-over-wrong-axis",
    *(f"clipped:{limit}" for limit in CLIPS),
    *(f"clipped:{limit}-shifted" for limit in (5, 10, 20, 30, 50)), "divided-by-maximum",
    *(f"clipped:{limit}-above" for limit in CLIPS),
)  # fmt: skip
SOFTMAXES = (
    "wrong-axis", "whole-array", "whole-array:sum", "across-heads", "across-the-batch", "no-softmax",
    "no-exponential", "not-normalised",
    "sigmoid", "hard-maximum", "logarithm", "other-base", "other-base:10", "other-norm", "other-norm:max",
    "softmax-twice", "no-keepdims", "no-keepdims:sum", "no-keepdims:max", "no-keepdims:column",
    "wrong-axis:sum", "wrong-axis:first", "no-exponential:shifted", "no-exponential:positive",
    "no-exponential:positive-eps", "wrong-axis:sum-first",
    "not-normalised:unshifted",
    "negated-softmax", "sigmoid:normalised", "divided-by-count", "across-heads:sum", "squared",
    "loop-over-first-axis", "shift-inconsistent", "shift-inconsistent:denominator",
    *(f"epsilon-in-the-sum:{eps}" for eps in ("1", "0.1", "0.01", "0.001", "1e-4", "1e-5", "1e-6")),
)  # fmt: skip
MASKS = (
    "inverted", "mask-ignored", "mask-multiplied", "mask-added", "after-softmax", "large-negative-number", "nan",
    "large-negative-number:added",
    "renormalised-too-late", "small-negative-number:-1", "small-negative-number:-10", "small-negative-number:-100",
    "mask-transposed", "infinity-times-visible", "mask-on-output-only", "output-unmasked", "inverted:nan",
    "mask-not-broadcast", "inverted:large", "inverted:multiplied", "after-softmax:inverted", "small-negative-number:-2",
    "small-negative-number:-5", "small-negative-number:-1000", "mask-subtracted", "positive-infinity",
    "after-softmax:infinity",
    "renormalised-too-late:nan", "mask-hides-rows", "first-mask-for-all",
)  # fmt: skip
UNASKED_MASKS = ("unasked-causal", "unasked-causal:start", "own-token-hidden", "own-token-hidden:large")
MIXES = (
    "keys-mixed", "applied-transposed", "weights-ignored", "output-scaled", "scores-mixed", "best-value-only",
    "queries-mixed", "weights-ignored:sum", "summed-over-wrong-axis", "not-mixed", "query-added", "output-averaged",
    "scores-mixed:raw", "not-summed", "output-normalised", "activation-on-output", "activation-on-output:tanh",
    "activation-on-output:softmax",
)  # fmt: skip
RETURNS = (
    "returns-scores", "returns-scores:raw", "averaged-weights", "averaged-weights:kept", "summed-weights",
    "results-swapped", "returns-exponentials", "returned-transposed", "first-head-returned", "returned-axes-swapped",
    "returned-before-mask", "heads-in-the-batch", "heads-first",
)  # fmt: skip
BATCHES = (
    "first-of-the-batch", "first-of-the-batch:values", "first-of-the-batch:both", "first-result-for-all",
    "last-result-for-all", "only-last-computed", "only-first-computed", "batch-mixed",
)  # fmt: skip


def without(names: Sequence[str], *prefixes: str) -> list[str]:
    """Return the names that begin with none of the prefixes.

    >>> without(("unscaled", "scaled-by-heads"), "scaled-by")
    ['unscaled']
    """
    return [name for name in names if not name.startswith(prefixes)]


def swap(x: Array) -> Array:
    """Return the array with its last two axes exchanged."""
    return x.swapaxes(-1, -2)


def check_square(made: Made, L: int, S: int) -> None:
    """Raise the error of a program that needs as many queries as keys; one query may broadcast."""
    mistake = made.get("size", "")
    if mistake.startswith("square-only") and L != S and not (mistake.endswith("one-query") and L == 1):
        raise ValueError(f"the number of queries, {L}, is not the number of keys, {S}")


def over_batch(made: Made, *results: Array) -> tuple[Array, ...]:
    """Return the results with a mistake of the loop over the first axis, such as a copy of one item for all."""
    mistake = made.get("batch", "")
    if mistake not in ("first-result-for-all", "last-result-for-all", "only-last-computed", "only-first-computed"):
        return results
    item = slice(0, 1) if "first" in mistake else slice(-1, None)
    changed = []
    for result in results:
        if mistake.endswith("computed"):
            kept = np.zeros_like(result)
            kept[item] = result[item]
            changed.append(kept)
        else:
            changed.append(np.broadcast_to(result[item], result.shape))
    return tuple(changed)


def base_name(mistake: str) -> str:
    """Return the name of a mistake without its detail.

    >>> base_name("clipped:500")
    'clipped'
    """
    return mistake.partition(":")[0]


def choose(made: Made, part: str, right: Any, **wrong: Any) -> Any:
    """Return the value of the mistake made in a part, `right` if there is none; - in a name is written as _.

    >>> choose({"bias": "no-bias"}, "bias", 3.0, no_bias=0.0)
    0.0
    """
    return wrong.get(made.get(part, "").replace("-", "_").replace(":", "__"), right)
