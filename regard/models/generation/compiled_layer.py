"""One token through one layer of a decoder, as plain loops over plain arrays, compiled by numba.

For a single row the products are matrix times vector, and what limits them is how fast the weights can be read. A loop
that does nothing but read them once, in order, is faster than a library made for matrices, and between the loops there
is nothing to call. float32, on the CPU; the weights are the model's own memory, not a copy.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.compiled import compiled as numba_compiled

Vector = NDArray[np.float32]
Matrix = NDArray[np.float32]

# Sums may be taken in any order, so that the processor can add eight numbers at once; NaN stays NaN.
compiled = partial(numba_compiled, nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "swiglu")


class Attention(NamedTuple):
    """Weights of attention; a bias that is not there has no elements."""

    norm: Vector
    norm_bias: Vector
    project: Matrix  # of q, k and v; of q alone for a source
    project_bias: Vector
    out: Matrix
    out_bias: Vector


class Feed(NamedTuple):
    """Weights of the feed-forward part."""

    norm: Vector
    norm_bias: Vector
    up: Matrix
    up_bias: Vector
    down: Matrix
    down_bias: Vector


class Kind(NamedTuple):
    """What the layers of a model have in common."""

    heads: int
    kv_heads: int
    pre: bool
    rms: bool
    epsilon: float
    activation: int  # its place in ACTIVATIONS


@compiled
def project(w: Matrix, b: Vector, x: Vector) -> Vector:
    """W x + b."""
    y = np.empty(w.shape[0], np.float32)
    for i in range(w.shape[0]):
        total = np.float32(0)
        for j in range(w.shape[1]):
            total += w[i, j] * x[j]
        y[i] = total + b[i] if b.size else total
    return y


@compiled
def normalise(x: Vector, weight: Vector, bias: Vector, rms: bool, epsilon: float) -> Vector:
    """Layer norm or RMS norm of one vector."""
    mean = np.float32(0)
    if not rms:
        for value in x:
            mean += value
        mean /= np.float32(x.size)
    squares = np.float32(0)
    for value in x:
        squares += (value - mean) * (value - mean)
    factor = np.float32(1 / math.sqrt(squares / x.size + epsilon))
    y = np.empty_like(x)
    for i in range(x.size):
        y[i] = (x[i] - mean) * factor * weight[i] + (bias[i] if bias.size else np.float32(0))
    return y


@compiled
def attend(q: Vector, heads: int, keys: Any, values: Any, length: int, slopes: Vector) -> Vector:
    """Attention of one query a head, the first H · d_k of q, over the first `length` keys and values (H_kv, …, d_k)."""
    kv_heads, d_k = keys.shape[0], keys.shape[2]
    scale = np.float32(1 / math.sqrt(d_k))
    out, weights = np.zeros(heads * d_k, np.float32), np.empty(length, np.float32)
    for h in range(heads):
        g, start = h * kv_heads // heads, h * d_k
        highest = np.float32(-np.inf)
        for j in range(length):
            score = np.float32(0)
            for i in range(d_k):
                score += q[start + i] * keys[g, j, i]
            score *= scale
            if slopes.size:
                score -= slopes[h] * np.float32(length - 1 - j)
            weights[j] = score
            highest = max(highest, score)
        total = np.float32(0)
        for j in range(length):
            weights[j] = math.exp(weights[j] - highest)
            total += weights[j]
        for j in range(length):
            weight = weights[j] / total
            for i in range(d_k):
                out[start + i] += weight * values[g, j, i]
    return out


@compiled
def turn(x: Vector, heads: int, cos: Vector, sin: Vector) -> None:
    """Rotary, in place: channels i and i + d_k/2 of the first heads are points, turned by the angle of the place."""
    half = cos.size
    for h in range(heads):
        for i in range(2 * h * half, (2 * h + 1) * half):
            c, s, a, b = cos[i % half], sin[i % half], x[i], x[i + half]
            x[i], x[i + half] = a * c - b * s, b * c + a * s


@compiled
def add(x: Vector, y: Vector, pre: bool, norm: Vector, norm_bias: Vector, rms: bool, epsilon: float) -> Vector:
    """x + y, normalised if norms come after."""
    for i in range(x.size):
        y[i] += x[i]
    return y if pre else normalise(y, norm, norm_bias, rms, epsilon)


@compiled
def self_attention(
    x: Vector, of: Attention, kind: Kind, keys: Any, values: Any, t: int, cos: Vector, sin: Vector, slopes: Vector
) -> Vector:
    """x after self-attention; the token's key and value are written to place t of (H_kv, room, d_k)."""
    heads, kv_heads, d_k = kind.heads, kind.kv_heads, keys.shape[2]
    y = normalise(x, of.norm, of.norm_bias, kind.rms, kind.epsilon) if kind.pre else x
    qkv = project(of.project, of.project_bias, y)
    if cos.size:
        turn(qkv, heads + kv_heads, cos, sin)
    for g in range(kv_heads):
        for i in range(d_k):
            keys[g, t, i] = qkv[(heads + g) * d_k + i]
            values[g, t, i] = qkv[(heads + kv_heads + g) * d_k + i]
    found = attend(qkv, heads, keys, values, t + 1, slopes)
    out = project(of.out, of.out_bias, found)
    return add(x, out, kind.pre, of.norm, of.norm_bias, kind.rms, kind.epsilon)


@compiled
def source_attention(x: Vector, of: Attention, kind: Kind, keys: Any, values: Any) -> Vector:
    """x after attention over a source, whose keys and values (H_kv, S, d_k) are known."""
    y = normalise(x, of.norm, of.norm_bias, kind.rms, kind.epsilon) if kind.pre else x
    q = project(of.project, of.project_bias, y)
    found = attend(q, kind.heads, keys, values, keys.shape[1], np.empty(0, np.float32))
    out = project(of.out, of.out_bias, found)
    return add(x, out, kind.pre, of.norm, of.norm_bias, kind.rms, kind.epsilon)


@compiled
def feed_forward(x: Vector, of: Feed, kind: Kind) -> Vector:
    """x after the feed-forward part."""
    y = normalise(x, of.norm, of.norm_bias, kind.rms, kind.epsilon) if kind.pre else x
    inner = activate(project(of.up, of.up_bias, y), kind.activation)
    out = project(of.down, of.down_bias, inner)
    return add(x, out, kind.pre, of.norm, of.norm_bias, kind.rms, kind.epsilon)


@compiled
def activate(x: Vector, activation: int) -> Vector:
    """ReLU, GELU (exact, or with tanh) or SwiGLU of one vector."""
    if activation == 3:
        half = x.size // 2
        gated = np.empty(half, np.float32)
        for i in range(half):
            gated[i] = x[i] / (np.float32(1) + math.exp(-x[i])) * x[half + i]
        return gated
    for i in range(x.size):
        value = x[i]
        if activation == 0:
            x[i] = max(value, np.float32(0))
        elif activation == 1:
            x[i] = np.float32(0.5) * value * (np.float32(1) + math.erf(value * np.float32(math.sqrt(0.5))))
        else:
            bent = np.float32(math.sqrt(2 / math.pi)) * (value + np.float32(0.044715) * value * value * value)
            x[i] = np.float32(0.5) * value * (np.float32(1) + math.tanh(bent))
    return x
