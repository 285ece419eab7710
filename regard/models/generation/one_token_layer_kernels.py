"""One decoding step of a decoder layer as loops over float32 arrays, compiled by numba.

For a few rows of one new token each, the time of a layer is the time to read its weights, and calling a library for
each operation takes longer than small operations themselves. These loops read every weight once for all rows and call
no library. The arrays are the memory of the model's own tensors; nothing is copied.

Shapes: x (B, D), one new token for each of B rows; keys and values (B, H_kv, S, d_k).
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.numba_functions import compiled as numba_compiled

Array = NDArray[np.float32]

# Sums may be reordered, so that they can be vectorised; NaN stays NaN.
compiled = partial(numba_compiled, nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "swiglu")


class Sublayer(NamedTuple):
    """Weights of attention or feed-forward: norm, first projection, last projection. A missing bias has size 0."""

    norm: Array
    norm_bias: Array
    first: Array  # q, k and v; q alone for attention over a source; the up projection of feed-forward
    first_bias: Array
    last: Array
    last_bias: Array


class Options(NamedTuple):
    """Options that all layers of a model share."""

    heads: int
    kv_heads: int
    pre_norm: bool
    rms: bool
    epsilon: float
    activation: int  # index in ACTIVATIONS


@compiled
def linear(x: Array, weight: Array, bias: Array) -> Array:
    """Return x Wᵀ + b, for four rows of x at a time, so that each weight is read once per four rows."""
    rows, inputs = x.shape
    y = np.empty((rows, len(weight)), np.float32)
    whole = rows - rows % 4
    for i in range(len(weight)):
        offset = bias[i] if bias.size else np.float32(0)
        for r in range(0, whole, 4):
            s0 = s1 = s2 = s3 = np.float32(0)
            for j in range(inputs):
                w = weight[i, j]
                s0 += w * x[r, j]
                s1 += w * x[r + 1, j]
                s2 += w * x[r + 2, j]
                s3 += w * x[r + 3, j]
            y[r, i], y[r + 1, i], y[r + 2, i], y[r + 3, i] = s0 + offset, s1 + offset, s2 + offset, s3 + offset
        for r in range(whole, rows):
            total = np.float32(0)
            for j in range(inputs):
                total += weight[i, j] * x[r, j]
            y[r, i] = total + offset
    return y


@compiled
def normalize(x: Array, weight: Array, bias: Array, rms: bool, epsilon: float) -> Array:
    """Return the layer norm or RMS norm of each row."""
    y = np.empty_like(x)
    for r in range(len(x)):
        mean = np.float32(0)
        if not rms:
            for value in x[r]:
                mean += value
            mean /= np.float32(x.shape[1])
        squares = np.float32(0)
        for value in x[r]:
            squares += (value - mean) * (value - mean)
        factor = np.float32(1 / math.sqrt(squares / x.shape[1] + epsilon))
        for i in range(x.shape[1]):
            y[r, i] = (x[r, i] - mean) * factor * weight[i] + (bias[i] if bias.size else np.float32(0))
    return y


@compiled
def sublayer_input(x: Array, part: Sublayer, options: Options) -> Array:
    """Return the first projection of x; a pre-norm model normalises x before it."""
    y = normalize(x, part.norm, part.norm_bias, options.rms, options.epsilon) if options.pre_norm else x
    return linear(y, part.first, part.first_bias)


@compiled
def sublayer_output(x: Array, inner: Array, part: Sublayer, options: Options) -> Array:
    """Return x plus the last projection of `inner`; a post-norm model normalises the sum."""
    y = linear(inner, part.last, part.last_bias)
    for r in range(len(x)):
        for i in range(x.shape[1]):
            y[r, i] += x[r, i]
    return y if options.pre_norm else normalize(y, part.norm, part.norm_bias, options.rms, options.epsilon)


@compiled
def rotate(x: Array, heads: int, cos: Array, sin: Array) -> None:
    """Apply rotary positions in place: channels i and i + d_k/2 of each head are rotated as a point in the plane."""
    half = cos.size
    for h in range(heads):
        for i in range(2 * h * half, (2 * h + 1) * half):
            c, s, a, b = cos[i % half], sin[i % half], x[i], x[i + half]
            x[i], x[i + half] = a * c - b * s, b * c + a * s


@compiled
def attend(q: Array, heads: int, keys: Any, values: Any, start: int, stop: int, slopes: Array, out: Array) -> None:
    """Write the attention of one row's queries over keys start … stop − 1 into out (H · d_k,).

    q (at least H · d_k,); keys and values (H_kv, S, d_k); slopes (H,) of ALiBi, or size 0.
    """
    kv_heads, d_k = keys.shape[0], keys.shape[2]
    scale = np.float32(1 / math.sqrt(d_k))
    weights = np.empty(stop - start, np.float32)
    for h in range(heads):
        g, first = h * kv_heads // heads, h * d_k
        highest = np.float32(-np.inf)
        for j in range(start, stop):
            score = np.float32(0)
            for i in range(d_k):
                score += q[first + i] * keys[g, j, i]
            score *= scale
            if slopes.size:
                score -= slopes[h] * np.float32(stop - 1 - j)
            weights[j - start] = score
            highest = max(highest, score)
        total = np.float32(0)
        for j in range(stop - start):
            weights[j] = math.exp(weights[j] - highest)
            total += weights[j]
        for i in range(d_k):
            out[first + i] = 0
        for j in range(start, stop):
            weight = weights[j - start] / total
            for i in range(d_k):
                out[first + i] += weight * values[g, j, i]


@compiled
def self_attention(
    x: Array, part: Sublayer, options: Options, keys: Any, values: Any, t: int, starts: Any, cos: Array, sin: Array,
    slopes: Array,
) -> Array:  # fmt: skip
    """Return x after self-attention; write the new keys and values to place t.

    starts      (B,) first place of each row that is not padding
    cos, sin    (B, d_k / 2) rotary factors of each row's new token, or size 0
    """
    heads, kv_heads, d_k = options.heads, options.kv_heads, keys.shape[3]
    qkv = sublayer_input(x, part, options)
    mixed = np.empty((len(x), heads * d_k), np.float32)
    for r in range(len(x)):
        if cos.size:
            rotate(qkv[r], heads + kv_heads, cos[r], sin[r])
        for g in range(kv_heads):
            for i in range(d_k):
                keys[r, g, t, i] = qkv[r, (heads + g) * d_k + i]
                values[r, g, t, i] = qkv[r, (heads + kv_heads + g) * d_k + i]
        attend(qkv[r], heads, keys[r], values[r], starts[r], t + 1, slopes, mixed[r])
    return sublayer_output(x, mixed, part, options)


@compiled
def source_attention(x: Array, part: Sublayer, options: Options, keys: Any, values: Any, lengths: Any) -> Array:
    """Return x after attention over the first lengths[r] tokens of each row's source."""
    q = sublayer_input(x, part, options)
    mixed, no_slopes = np.empty((len(x), options.heads * keys.shape[3]), np.float32), np.empty(0, np.float32)
    for r in range(len(x)):
        attend(q[r], options.heads, keys[r], values[r], 0, lengths[r], no_slopes, mixed[r])
    return sublayer_output(x, mixed, part, options)


@compiled
def feed_forward(x: Array, part: Sublayer, options: Options) -> Array:
    """Return x after the feed-forward sublayer."""
    return sublayer_output(x, activate(sublayer_input(x, part, options), options.activation), part, options)


@compiled
def activate(x: Array, activation: int) -> Array:
    """Return ReLU, GELU (exact, or the tanh approximation) or SwiGLU of x; x may be overwritten."""
    rows, width = x.shape
    if activation == 3:
        half = width // 2
        gated = np.empty((rows, half), np.float32)
        for r in range(rows):
            for i in range(half):
                gated[r, i] = x[r, i] / (np.float32(1) + math.exp(-x[r, i])) * x[r, half + i]
        return gated
    for r in range(rows):
        for i in range(width):
            value = x[r, i]
            if activation == 0:
                x[r, i] = max(value, np.float32(0))
            elif activation == 1:
                x[r, i] = np.float32(0.5) * value * (np.float32(1) + math.erf(value * np.float32(math.sqrt(0.5))))
            else:
                cubic = np.float32(math.sqrt(2 / math.pi)) * (value + np.float32(0.044715) * value * value * value)
                x[r, i] = np.float32(0.5) * value * (np.float32(1) + math.tanh(cubic))
    return x
