"""Scaled dot-product attention in NumPy, computed correctly or with mistakes in its parts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from regard.learn.mistakes.normalise import softmax
from regard.learn.mistakes.parts import UNASKED_MASKS, Array, Made, over_batch, swap


@dataclass(frozen=True)
class Inputs:
    """Inputs of attention: q (…, L, d_k), k (…, S, d_k), v (…, S, d_v), what is visible, and other sizes by name."""

    q: Array
    k: Array
    v: Array
    visible: Array | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def size(self, name: str) -> int:
        """Return a size by name: d_k, values, keys, queries, or one of `sizes` (heads, d_model, batch)."""
        known = {
            "d_k": self.q.shape[-1],
            "values": self.v.shape[-1],
            "keys": self.k.shape[-2],
            "queries": self.q.shape[-2],
            "axis-0": self.q.shape[0],
            "axis-1": self.q.shape[1],
        }
        return {**known, **self.sizes}[name]


def attend(made: Made, inputs: Inputs) -> tuple[Array, Array]:
    """Return output (…, L, d_v) and weights (…, L, S) with the mistakes made."""
    q, k, v = inputs.q, inputs.k, inputs.v
    key_mistake = made.get("batch", "")
    if key_mistake == "batch-mixed" and q.ndim > 2:
        return _attend_across_batch(made, inputs)
    if key_mistake in ("first-of-the-batch", "first-of-the-batch:both") and q.ndim > 2:
        k = np.broadcast_to(k[:1], k.shape)
    if key_mistake in ("first-of-the-batch:values", "first-of-the-batch:both") and q.ndim > 2:
        v = np.broadcast_to(v[:1], v.shape)
    inputs = Inputs(q, k, v, inputs.visible, inputs.sizes)
    raw = scores_of(made, inputs)
    scores = raw * scale_of(made, inputs)
    masked, weights = weights_of(made, scores, inputs)
    after = made.get("scale", "")
    if after.startswith("scaled-after-softmax"):
        root = float(np.sqrt(inputs.size("d_k")))
        weights = weights * root if after.endswith("multiplied") else weights / root
    used = _weights_for_output(made, scores, weights, inputs)
    output = _mix(made, used, raw, masked, inputs)
    returned = _returned(made, raw, masked, weights, scores, inputs)
    if made.get("return") == "results-swapped":
        output, returned = returned, output
    if made.get("batch") and inputs.q.ndim > 2:
        output, returned = over_batch(made, output, returned)
    return output, returned


def scores_of(made: Made, inputs: Inputs) -> Array:
    """Return the scores before scaling."""
    q, k, v = inputs.q, inputs.k, inputs.v
    mistake = made.get("scores", "")
    if mistake.startswith("cosine"):
        lengths = np.linalg.norm(q, axis=-1)[..., :, None] * np.linalg.norm(k, axis=-1)[..., None, :]
        return q @ swap(k) / (lengths if mistake.endswith("plain") else np.maximum(lengths, 1e-12))
    if mistake.startswith("distance"):
        squares = ((q[..., :, None, :] - k[..., None, :, :]) ** 2).sum(-1)
        return {
            "distance": -squares,
            "distance:positive": squares,
            "distance:root": -np.sqrt(squares),
            "distance:absolute": -np.abs(q[..., :, None, :] - k[..., None, :, :]).sum(-1),
        }[mistake]
    if mistake.startswith("keys-normalised"):
        if mistake.endswith("queries"):
            q = q / np.linalg.norm(q, axis=-1, keepdims=True)
        else:
            k = k / np.linalg.norm(k, axis=-1, keepdims=True)
        return q @ swap(k)
    if mistake == "dot-of-batches":
        return np.asarray(np.dot(q, swap(k)))
    if mistake == "outer-product":
        similarity = (k @ swap(q))[..., :, 0]
        return similarity[..., :, None] * similarity[..., None, :]
    results: dict[str, Callable[[], Array]] = {
        "scores-transposed": lambda: k @ swap(q),
        "reshaped": lambda: q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]),
        "reversed-axes": lambda: q @ k.T,
        "missing-transpose": lambda: q @ k,
        "keys-with-keys": lambda: k @ swap(k),
        "queries-with-queries": lambda: q @ swap(q),
        "values-as-keys": lambda: q @ swap(v),
        "negated": lambda: -q @ swap(k),
        "absolute": lambda: np.abs(q @ swap(k)),
        "heads-mixed": lambda: q @ swap(k.sum(axis=1, keepdims=True)),
        "batch-summed": lambda: q @ swap(k.sum(axis=0, keepdims=True)),
    }
    return results[mistake]() if mistake in results else q @ swap(k)


def scale_of(made: Made, inputs: Inputs) -> float:
    """Return the factor of the scores."""
    mistake = made.get("scale", "")
    if made.get("scores", "") in ("cosine", "cosine:plain"):
        return 1.0
    d_k = inputs.size("d_k")
    if mistake in ("unscaled", "scaled-after-softmax", "scaled-after-softmax:multiplied"):
        return 1.0
    if mistake.startswith("divided-by-"):
        return 1.0 / inputs.size(mistake.removeprefix("divided-by-"))
    if mistake.startswith("scaled-by-"):
        return float(inputs.size(mistake.removeprefix("scaled-by-")) ** -0.5)
    if mistake == "scaled-by-logarithm":
        return float(1 / np.log(d_k))
    factors = {"multiplied-by-root": 0.5, "multiplied-by-d_k": 1.0, "fourth-root": -0.25, "divided-twice": -1.5}
    return float(d_k ** factors.get(mistake, -0.5))


def weights_of(made: Made, scores: Array, inputs: Inputs) -> tuple[Array, Array]:
    """Return the masked scores and the weights."""
    visible, mistake = inputs.visible, made.get("mask", "")
    if visible is None and mistake in UNASKED_MASKS:
        masked = np.where(_unasked_mask(mistake, *scores.shape[-2:]), scores, -1e9 if "large" in mistake else -np.inf)
        return masked, softmax(made, masked)
    if visible is None:
        return scores, softmax(made, scores)
    if made.get("maximum", "").startswith("unstable:"):
        e = np.exp(scores)
        e = e * visible if made["maximum"].endswith("multiplied") else np.where(visible, e, 0)
        total = e.sum(-1, keepdims=True)
        return scores, e / np.where(total == 0, 1, total)
    if mistake in ("mask-ignored", "mask-on-output-only"):
        return scores, softmax(made, scores)
    if mistake == "mask-not-broadcast" and visible.shape != scores.shape:
        raise IndexError("the mask does not have the shape of the scores")
    if mistake == "first-mask-for-all" and visible.ndim > 2:
        visible = visible[:1]
    if mistake == "mask-transposed":
        visible = swap(visible)
    if mistake == "mask-hides-rows":
        visible = np.asarray(np.broadcast_to(visible, scores.shape).all(axis=-1, keepdims=True))
    if mistake.startswith("inverted") or mistake.endswith("inverted"):
        visible = np.array(~visible)
    visible = np.broadcast_to(visible, scores.shape)
    if mistake.startswith("after-softmax"):
        weights = softmax(made, scores)
        return scores, np.where(visible, weights, -np.inf) if mistake.endswith("infinity") else weights * visible
    if mistake.startswith("renormalised-too-late"):
        weights = softmax(made, scores) * visible
        total = weights.sum(-1, keepdims=True)
        return scores, weights / (total if mistake.endswith("nan") else np.where(total == 0, 1, total))
    masked = _masked_scores(mistake, scores, visible)
    weights = softmax(made, masked)
    zeroed = not mistake or mistake in ("inverted", "output-unmasked", "mask-not-broadcast", "mask-hides-rows",
                                      "first-mask-for-all")  # fmt: skip
    return masked, np.where(visible, weights, 0.0) if zeroed or mistake == "mask-transposed" else weights


def _unasked_mask(mistake: str, L: int, S: int) -> Array:
    """Return what remains visible under a mask that the exercise does not ask for."""
    if mistake.startswith("own-token-hidden"):
        return ~np.eye(L, S, dtype=bool)
    return np.tri(L, S, 0 if mistake.endswith("start") else S - L, dtype=bool)


def _masked_scores(mistake: str, scores: Array, visible: Array) -> Array:
    if mistake.startswith("small-negative-number"):
        return np.where(visible, scores, float(mistake.partition(":")[2]))
    if mistake == "large-negative-number:added":
        return scores + (1.0 - visible) * -1e9
    if mistake == "infinity-times-visible":
        return scores + (1.0 - visible) * -np.inf
    if mistake in ("mask-added", "mask-subtracted"):
        return scores + visible if mistake == "mask-added" else scores - visible
    hidden = {
        "mask-multiplied": 0.0,
        "inverted:multiplied": 0.0,
        "large-negative-number": -1e9,
        "inverted:large": -1e9,
        "positive-infinity": np.inf,
    }
    return np.where(visible, scores, hidden.get(mistake, -np.inf))


def _weights_for_output(made: Made, scores: Array, weights: Array, inputs: Inputs) -> Array:
    """Return the weights that the output uses, where they are not those returned."""
    mistake = made.get("mask", "")
    if inputs.visible is not None and mistake == "mask-on-output-only":
        return weights * inputs.visible
    if inputs.visible is not None and mistake == "output-unmasked":
        return softmax(made, scores)
    if made.get("heads") == "averaged" and weights.ndim == 4:
        return np.broadcast_to(weights.mean(axis=1, keepdims=True), weights.shape)
    if made.get("heads") in ("first-head-weights", "last-head-weights") and weights.ndim == 4:
        head = slice(0, 1) if made["heads"].startswith("first") else slice(-1, None)
        return np.broadcast_to(weights[:, head], weights.shape)
    return weights


def _mix(made: Made, weights: Array, raw: Array, scores: Array, inputs: Inputs) -> Array:
    mistake, v = made.get("mix", ""), inputs.v
    if not mistake:
        return weights @ v
    if mistake == "best-value-only":
        return np.take_along_axis(v, weights.argmax(-1)[..., None], axis=-2)
    if mistake.startswith("weights-ignored"):
        mixed = v.sum(-2, keepdims=True) if mistake.endswith("sum") else v.mean(-2, keepdims=True)
        return np.broadcast_to(mixed, (*weights.shape[:-1], v.shape[-1]))
    results: dict[str, Callable[[], Array]] = {
        "keys-mixed": lambda: weights @ inputs.k,
        "queries-mixed": lambda: weights @ inputs.q,
        "applied-transposed": lambda: swap(weights) @ v,
        "scores-mixed": lambda: scores @ v,
        "scores-mixed:raw": lambda: raw @ v,
        "not-mixed": lambda: v,
        "summed-over-wrong-axis": lambda: (weights[..., None] * v[..., None, :, :]).sum(-1),
        "query-added": lambda: inputs.q + weights @ v,
        "output-averaged": lambda: weights @ v / v.shape[-2],
        "not-summed": lambda: weights[..., None] * v[..., None, :, :],
        "output-normalised": lambda: weights @ v / np.linalg.norm(weights @ v, axis=-1, keepdims=True),
        "activation-on-output": lambda: np.maximum(weights @ v, 0),
        "activation-on-output:tanh": lambda: np.tanh(weights @ v),
        "activation-on-output:softmax": lambda: softmax({}, weights @ v),
        "output-scaled": lambda: weights @ v / float(np.sqrt(inputs.size("d_k"))),
    }
    return results[mistake]() if mistake in results else weights @ v


def _returned(made: Made, raw: Array, masked: Array, weights: Array, scores: Array, inputs: Inputs) -> Array:
    mistake = made.get("return", "")
    if mistake == "returned-before-mask" and inputs.visible is None:
        raise KeyError("no mask")
    if made.get("heads") and weights.ndim == 4:
        weights = _weights_for_output(made, scores, weights, inputs)
    results: dict[str, Callable[[], Array]] = {
        "returns-scores": lambda: masked,
        "returns-scores:raw": lambda: raw,
        "averaged-weights": lambda: weights.mean(axis=1),
        "averaged-weights:kept": lambda: np.broadcast_to(weights.mean(axis=1, keepdims=True), weights.shape),
        "summed-weights": lambda: weights.sum(axis=1),
        "first-head-returned": lambda: weights[:, 0],
        "returns-exponentials": lambda: np.exp(masked - masked.max(axis=-1, keepdims=True)),
        "returned-transposed": lambda: swap(weights),
        "returned-axes-swapped": lambda: weights.swapaxes(1, 2),
        "heads-first": lambda: weights.swapaxes(0, 1),
        "heads-in-the-batch": lambda: weights.reshape(-1, *weights.shape[-2:]),
        "returned-before-mask": lambda: softmax({}, scores),
    }
    return results[mistake]() if mistake in results else weights


def _attend_across_batch(made: Made, inputs: Inputs) -> tuple[Array, Array]:
    """Return attention in which the queries of every sequence see the keys of all sequences."""
    q, k, v = (x.reshape(-1, x.shape[-1]) for x in (inputs.q, inputs.k, inputs.v))
    rest = {part: mistake for part, mistake in made.items() if part != "batch"}
    output, weights = attend(rest, Inputs(q, k, v, None, inputs.sizes))
    B, L, S = len(inputs.q), inputs.q.shape[-2], inputs.k.shape[-2]
    own = weights.reshape(B, L, B, S)[np.arange(B), :, np.arange(B)]
    return output.reshape(B, L, -1), own
