"""The exercise in NumPy, with the mistakes that can be made in each part."""

import numpy as np

from regard.learn.mistakes import parts
from regard.learn.mistakes.attention import Inputs, scale_of, scores_of

PARTS = {
    "correction": ("total-not-corrected", "mixed-not-corrected", "nothing-corrected", "upside-down",
                   "new-too-corrected", "own-maximum"),
    "maximum": ("maximum-not-kept", "newest-maximum", "no-maximum", "minimum-kept", "first-maximum",
                "maximum-from-zero"),
    "tiles": ("last-tile-lost", "last-tile-lost:error", "tiles-averaged", "only-first-tile", "tile-off-by-one",
              "values-of-first-tile", "tile-overlap", "tile-normalised"),
    "result": ("not-normalised", "lse-without-maximum", "lse-without-logarithm", "normalised-by-keys", "lse-negative",
               "results-swapped", "lse-is-maximum", "lse-is-total", "log-base-2", "log-base-10",
               "lse-multiplied"),
    "scale": parts.without(parts.SCALES, "scaled-by-axis", "scaled-after", "scaled-by-queries"),
    "scores": parts.SCORES,
}  # fmt: skip


def model(made, query, keys, values, tile):
    inputs = Inputs(query[None], keys, values)
    factor = scale_of(made, inputs)
    correction_mistake, of_maximum, tiles = made.get("correction"), made.get("maximum"), made.get("tiles")
    maximum, total, mixed = -np.inf, 0.0, np.zeros(values.shape[-1])
    if of_maximum in ("no-maximum", "maximum-from-zero"):
        maximum = 0.0
    end = len(keys)
    if tiles in ("last-tile-lost", "last-tile-lost:error"):
        end = end // tile * tile
        if not end and tiles.endswith("error"):
            raise ZeroDivisionError("division by zero")
    larger, count = 0.0, 0
    for start in range(0, end, tile):
        part = slice(start, start + tile)
        if tiles == "tile-off-by-one":
            part = slice(start, start + tile - 1)
        elif tiles == "tile-overlap":
            part = slice(start, start + tile + 1)
        if (tiles == "only-last-tile" and start + tile < end) or (tiles == "only-first-tile" and start):
            continue
        mine = Inputs(query[None], keys[part], values[part])
        scores = (scores_of(made, mine) * factor)[0]
        if not scores.size:
            raise ValueError("zero-size array to reduction operation maximum which has no identity")
        own = scores.min() if of_maximum == "minimum-kept" else scores.max()
        larger = own if of_maximum == "newest-maximum" else 0.0 if of_maximum == "no-maximum" else max(maximum, own)
        if of_maximum == "first-maximum" and count:
            larger = maximum
        correction = np.exp(larger - maximum if correction_mistake == "upside-down" else maximum - larger)
        if correction_mistake == "nothing-corrected":
            correction = 1.0
        e = np.exp(scores - larger)
        if correction_mistake == "own-maximum":
            e = np.exp(scores - own)
        if correction_mistake == "new-too-corrected":
            e, correction = e * (correction if count else 1.0), correction
        total = total * (1.0 if correction_mistake == "total-not-corrected" else correction) + e.sum()
        source = values[: len(e)] if tiles == "values-of-first-tile" else values[part]
        if tiles == "tile-normalised":
            mixed = mixed * correction + e @ source / e.sum()
        elif tiles == "tiles-averaged":
            mixed = mixed + e @ source / e.sum()
        else:
            mixed = mixed * (1.0 if correction_mistake == "mixed-not-corrected" else correction) + e @ source
        if of_maximum != "maximum-not-kept":
            maximum = larger
        count += 1
    if of_maximum == "maximum-not-kept" or of_maximum == "no-maximum":
        maximum = larger
    output = mixed / count if tiles == "tiles-averaged" and count else mixed / total
    result, lse = made.get("result"), maximum + np.log(total)
    lse = {
        "lse-without-maximum": lambda: np.log(total),
        "lse-without-logarithm": lambda: maximum + total,
        "lse-is-maximum": lambda: maximum,
        "lse-is-total": lambda: total,
        "lse-negative": lambda: -lse,
        "log-base-10": lambda: maximum + np.log10(total),
        "lse-multiplied": lambda: maximum * np.log(total),
        "log-base-2": lambda: maximum + np.log2(total),
    }.get(result, lambda: lse)()
    output = {"not-normalised": mixed, "normalised-by-keys": mixed / len(keys)}.get(result, output)
    return (np.asarray(lse), output) if result == "results-swapped" else (output, np.asarray(lse))
