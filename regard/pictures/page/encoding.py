"""Compact encoding of attention weights in a page, correct to three significant digits.

Twelve layers of twelve heads over 512 tokens have 37.7 million weights. Three digits of each take about 11 bits, 52 MB
in all, and compression does not help, because the digits of neighbouring weights are independent. But the weights of a
head are computed from far fewer numbers, its queries and keys: 2 · 512 · 64 instead of 512 · 512. Each head is stored
in one of three ways:

exact     32-bit floats, for pages with at most two million weights.
factors   If q and k are given. scale · q · kᵀ = A Bᵀ by singular values, with columns of A and B of equal length; both
          are rounded to multiples of one step. The page computes the scores (from integers, so exactly), the softmax,
          and the three digits. The step is small enough that only a few per cent of the weights differ from the correct
          ones (computed here in float64 from q and k) by one unit of the last digit; for those a correction of +1 or
          −1 is stored, and the rare ones with a larger error are stored in full. All three digits are then correct.
digits    Otherwise: the three digits and the power of ten of each weight in 16 bits. Also correct, but larger: about
          1.7 bytes per weight in the file. Weights below 1e−71 become 0.

The code of a number is 0 for 0, else 1 + 900 · (exponent + 71) + (digits − 100), where 0.0123 has exponent −2 and
digits 123. Codes are consecutive: 9.99 is followed by 10.0, so adding ±1 always gives the neighbouring number.

Byte streams are compressed with deflate, which browsers can decode, and written in base 85, 5 characters for 4 bytes.
"""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.pictures.inputs import to_float64

Array = np.ndarray
Encoded = tuple[dict[str, Any], list[bytes]]  # what the page needs for decoding, and the encoded bytes in parts

EXACT_UP_TO = 2_000_000
LOWEST = -71  # the power of ten of the smallest weight that has a code
POWERS = np.array([float(f"1e{n}") for n in range(2 - LOWEST + 2)])
# The alphabet of RFC 1924, with a comma instead of `<`, which is special inside a script element.
ALPHABET = np.frombuffer(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~", dtype=np.uint8
)
# Root mean square error of a score before corrections: a trade-off between the size of A and B and of the corrections.
TOLERANCE = 2e-4
MOST_FAR = 100  # largest number of weights per head with an error of more than one unit, which are stored in full


@dataclass(frozen=True, eq=False)
class Factors:
    """The weights of a layer as queries and keys: softmax(scale · q · kᵀ) over the visible keys.

    q        (H, L, d_k)
    k        (H_kv, S, d_k), where H_kv divides H
    scale    default: 1/√d_k
    visible  boolean, broadcast to (H, L, S); True means visible; default: all

    >>> rng = np.random.default_rng(0)
    >>> Factors(rng.normal(size=(2, 3, 4)), rng.normal(size=(1, 5, 4))).shape
    (2, 3, 5)
    """

    q: Any
    k: Any
    scale: float | None = None
    visible: Any = None

    def __post_init__(self) -> None:
        q, k = to_float64(self.q), to_float64(self.k)
        if q.ndim != 3 or k.ndim != 3 or q.shape[-1] != k.shape[-1] or not len(k) or len(q) % len(k):
            raise ValueError(
                f"q and k must be (H, L, d_k) and (H_kv, S, d_k) with H_kv dividing H, got {q.shape} and {k.shape}"
            )
        object.__setattr__(self, "q", q)
        object.__setattr__(self, "k", k)
        object.__setattr__(self, "scale", q.shape[-1] ** -0.5 if self.scale is None else float(self.scale))
        if self.visible is not None:
            mask = np.asarray(self.visible.detach().cpu() if hasattr(self.visible, "detach") else self.visible)
            if mask.dtype != bool:
                raise TypeError(f"visible must be boolean, True where a query may see a key, got {mask.dtype}")
            object.__setattr__(self, "visible", np.broadcast_to(mask, self.shape))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the weights, (H, L, S)."""
        return (*self.q.shape[:2], self.k.shape[1])

    def head(self, h: int) -> tuple[Array, Array, Array | None]:
        """Return the queries, the keys and the mask of one head."""
        kv = h * len(self.k) // len(self.q)
        return self.q[h], self.k[kv], None if self.visible is None else self.visible[h]

    def weights(self, h: int) -> Array:
        """Return the weights (L, S) of one head in float64."""
        q, k, visible = self.head(h)
        assert self.scale is not None
        return softmax(self.scale * (q @ k.T), visible)


def softmax(scores: Array, visible: Array | None) -> Array:
    """Return the softmax of each row over the visible keys; a row without visible keys is 0."""
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    highest = scores.max(-1, keepdims=True)
    exponentials = np.exp(scores - np.where(np.isneginf(highest), 0, highest))
    total = exponentials.sum(-1, keepdims=True)
    return exponentials / np.where(total == 0, 1, total)


def three_digits(values: Array) -> Array:
    """Return the codes of non-negative numbers, as defined in the module docstring.

    >>> three_digits(np.array([0, 0.0123, 0.01234, 0.999, 0.9996, 1.0])).tolist()
    [0, 62124, 62124, 63900, 63901, 63901]
    """
    small = values < POWERS[-LOWEST] ** -1
    safe = np.where(small, 1.0, values)
    exponent = np.floor(np.log10(safe)).astype(np.int64)
    digits = np.rint(safe * POWERS[2 - exponent])
    for _ in range(2):  # log10 may be off by one next to a power of ten, and 999.6 rounds up to 1000
        off = np.nonzero((digits >= 1000) | (digits < 100))
        exponent[off] += np.where(digits[off] >= 1000, 1, -1)
        digits[off] = np.rint(safe[off] * POWERS[2 - exponent[off]])
    return np.where(small, 0, 900 * (exponent - LOWEST) + digits.astype(np.int64) - 99)


def encode_exact(weights: Array) -> Encoded:
    """Encode weights as 32-bit floats."""
    return {"way": "exact"}, [weights.astype("<f4").tobytes()]


def encode_digits(weights: Array) -> Encoded:
    """Encode weights as 16-bit codes: all high bytes, then all low bytes."""
    codes = three_digits(weights).astype(">u2")
    return {"way": "digits"}, [plane.tobytes() for plane in codes.reshape(-1).view(np.uint8).reshape(-1, 2).T]


def encode_factors(weights: Array, q: Array, k: Array, scale: float, visible: Array | None) -> Encoded:
    """Encode weights as A and B in multiples of a step, followed by the corrections."""
    correct = three_digits(weights)
    a, b = balanced_factors(scale * q, k - k.mean(0))  # the mean key adds a constant to each row, which softmax cancels
    spread = float((a**2).sum(-1).mean() + (b**2).sum(-1).mean())
    step = TOLERANCE / np.sqrt(spread / 12 or 1.0)
    while True:
        whole_a, whole_b = np.rint(a / step), np.rint(b / step)
        errors = correct - three_digits(softmax((whole_a @ whole_b.T) * (step * step), visible))
        far = np.flatnonzero(np.abs(errors) > 1)
        if len(far) <= MOST_FAR:
            break
        step /= 2
    head = {"way": "factors", "rank": a.shape[1], "step": step}
    head["far"] = [[int(place), int(correct.flat[place])] for place in far]
    errors.flat[far] = 0
    signs = errors[errors != 0] > 0
    packed_a, head["a"] = byte_planes(whole_a)
    packed_b, head["b"] = byte_planes(whole_b)
    bits = [np.packbits(part.reshape(-1), bitorder="little").tobytes() for part in (errors != 0, signs)]
    return head, [*packed_a, *packed_b, *bits]


def balanced_factors(q: Array, k: Array) -> tuple[Array, Array]:
    """Return A and B with A Bᵀ = q kᵀ; matching columns have equal length, longest first.

    The scores of a trained head lie mostly in few directions. These columns come first; the others need few bits.
    """
    base_q, small_q = np.linalg.qr(q)
    base_k, small_k = np.linalg.qr(k)
    left, sizes, right = np.linalg.svd(small_q @ small_k.T)
    rank = min(len(sizes), max(int((sizes > 1e-9 * sizes[0]).sum()), 1))
    root = np.sqrt(sizes[:rank])
    return (base_q @ left[:, :rank]) * root, (base_k @ right.T[:, :rank]) * root


def byte_planes(whole: Array) -> tuple[list[bytes], dict[str, int]]:
    """Return integers, column by column, as planes of bytes: all lowest bytes, then all second-lowest, and so on.

    The lowest bytes are noise that deflate cannot compress; the highest are mostly equal and compress well.

    >>> byte_planes(np.array([[-1.0], [300.0]]))
    ([b'\\x00-', b'\\x00\\x01'], {'least': -1, 'bytes': 2})
    """
    least = int(whole.min())
    offsets = (whole.T - least).astype("<u8")
    count = max(1, -(-int(offsets.max()).bit_length() // 8))
    planes = offsets.reshape(-1).view(np.uint8).reshape(-1, 8).T[:count]
    return [plane.tobytes() for plane in planes], {"least": least, "bytes": count}


def deflate(parts: list[bytes]) -> bytes:
    """Return the parts as one raw deflate stream, each compressed with the strategy that makes it smallest.

    Noise with a skewed distribution compresses best with Huffman codes only, repetition with the default strategy.
    A stream may change the strategy at every full flush.
    """
    stream = b""
    for i, part in enumerate(parts):
        end = zlib.Z_FINISH if i == len(parts) - 1 else zlib.Z_FULL_FLUSH
        strategies = zlib.Z_HUFFMAN_ONLY, zlib.Z_DEFAULT_STRATEGY
        compressors = [zlib.compressobj(6, zlib.DEFLATED, -15, 9, strategy) for strategy in strategies]
        stream += min((one.compress(part) + one.flush(end) for one in compressors), key=len)
    return stream


def encode_text(parts: list[bytes]) -> tuple[str, int]:
    """Return the parts, compressed and in base 85, and the number of compressed bytes; safe inside a script element.

    >>> encode_text([b"aaaa"])
    ('OH52m1ONa4', 6)
    """
    stream = deflate(parts)
    words = np.frombuffer(stream + bytes(-len(stream) % 4), dtype=">u4").astype(np.uint32)
    digits = np.empty((len(words), 5), dtype=np.uint8)
    for place in range(4, -1, -1):
        words, digits[:, place] = np.divmod(words, 85)
    return ALPHABET[digits].tobytes().decode("ascii"), len(stream)


def encode(layer: Any, h: int, weights: Array, total: int) -> Encoded:
    """Encode one head as exact, factors or digits, depending on its layer and on the number of weights of the page."""
    if total <= EXACT_UP_TO:
        return encode_exact(weights)
    if isinstance(layer, Factors):
        rank, (queries, keys) = min(layer.q.shape[-1], *weights.shape), weights.shape
        if 13 * rank * (queries + keys) < 11 * queries * keys:
            q, k, visible = layer.head(h)
            return encode_factors(weights, q, k, layer.scale or 0.0, visible)
    return encode_digits(weights)


def weights_of(layer: Any, h: int) -> Array:
    """Return the weights (L, S) of one head of a layer, which is an array or `Factors`."""
    return layer.weights(h) if isinstance(layer, Factors) else layer[h]
