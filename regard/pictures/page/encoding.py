"""How a head's weights are stored in a page: small, and right to three significant digits.

Twelve layers of twelve heads over 512 tokens are 37.7 million weights. Three digits of each are some 11 bits,
52 MB in all, and no compression helps: the digits of one weight say nothing of the next. But a head's weights
are made of far fewer numbers, its queries and keys: 2 · 512 · 64 against 512 · 512. So there are three ways:

exact     32-bit floats, while a page holds no more than two million weights.
factors   When q and k are given. scale · q · kᵀ = A Bᵀ by singular values, with A and B of equal length;
          both are rounded to whole multiples of one step. The page computes the scores (whole numbers, so
          exactly), the softmax, and the three digits. The step is so small that only some weights in a hundred
          come out one digit away from the true one (computed here in float64 from q and k as given); for
          those a correction of +1 or −1 is stored, and a rare one further away is written out. All three
          digits of every weight are then right.
digits    Otherwise: each weight's three digits and its power of ten in 16 bits. Right as well, and larger:
          about 1.7 bytes a weight in the file. Weights below 1e−71 become 0.

The code of a number is 0 for 0, else 1 + 900 · (exponent + 71) + (digits − 100), where 0.0123 has exponent −2
and digits 123. Codes count on without a gap: 9.99 is followed by 10.0. So ±1 is always the next number.

Streams of bytes are deflated (browsers can inflate) and written in base 85, 5 characters for 4 bytes.
"""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.pictures.inputs import to_float64

Array = np.ndarray
Encoded = tuple[dict[str, Any], list[bytes]]  # what the page must know to read the bytes, and the bytes in parts

EXACT_UP_TO = 2_000_000
LOWEST = -71  # the power of ten of the smallest weight that has a code
POWERS = np.array([float(f"1e{n}") for n in range(2 - LOWEST + 2)])
# RFC 1924's, with a comma for `<`, the one character of it that means something inside a script element.
ALPHABET = np.frombuffer(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~", dtype=np.uint8
)
# Root mean square error of a score before corrections: a balance of the bits of A and B, and of the corrections.
TOLERANCE = 2e-4
FAR = 100  # weights of a head that may be more than one digit away; they are written out


@dataclass(frozen=True, eq=False)
class Factors:
    """A layer's weights by what they are made of: softmax(scale · q · kᵀ) over the visible keys.

    q        (H, L, d_k)
    k        (H_kv, S, d_k), where H_kv divides H
    scale    1/√d_k when not given
    visible  boolean, broadcast to (H, L, S); True means visible; everything when not given

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
            seen = self.visible.detach().cpu().numpy() if hasattr(self.visible, "detach") else np.asarray(self.visible)
            if seen.dtype != bool:
                raise TypeError(f"visible must be boolean, True where a query may see a key, got {seen.dtype}")
            object.__setattr__(self, "visible", np.broadcast_to(seen, self.shape))

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, L, S)."""
        return (*self.q.shape[:2], self.k.shape[1])

    def head(self, h: int) -> tuple[Array, Array, Array | None]:
        """The queries, the keys and what is visible, of one head."""
        kv = h * len(self.k) // len(self.q)
        return self.q[h], self.k[kv], None if self.visible is None else self.visible[h]

    def weights(self, h: int) -> Array:
        """The weights (L, S) of one head, in float64."""
        q, k, seen = self.head(h)
        assert self.scale is not None
        return softmax(self.scale * (q @ k.T), seen)


def softmax(scores: Array, visible: Array | None) -> Array:
    """Rows that add up to 1; an empty row is 0."""
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    highest = scores.max(-1, keepdims=True)
    grown = np.exp(scores - np.where(np.isneginf(highest), 0, highest))
    total = grown.sum(-1, keepdims=True)
    return grown / np.where(total == 0, 1, total)


def three_digits(values: Array) -> Array:
    """The code of each number of at least 0 (see the top of this module).

    >>> three_digits(np.array([0, 0.0123, 0.01234, 0.999, 0.9996, 1.0])).tolist()
    [0, 62124, 62124, 63900, 63901, 63901]
    """
    small = values < POWERS[-LOWEST] ** -1
    safe = np.where(small, 1.0, values)
    exponent = np.floor(np.log10(safe)).astype(np.int64)
    digits = np.rint(safe * POWERS[2 - exponent])
    for _ in range(2):  # log10 may be off by one beside a power of ten, and 999.6 rounds up to 1000
        off = np.nonzero((digits >= 1000) | (digits < 100))
        exponent[off] += np.where(digits[off] >= 1000, 1, -1)
        digits[off] = np.rint(safe[off] * POWERS[2 - exponent[off]])
    return np.where(small, 0, 900 * (exponent - LOWEST) + digits.astype(np.int64) - 99)


def encode_exact(weights: Array) -> Encoded:
    """32-bit floats."""
    return {"way": "exact"}, [weights.astype("<f4").tobytes()]


def encode_digits(weights: Array) -> Encoded:
    """Three digits and a power of ten in 16 bits: all high bytes, then all low bytes."""
    codes = three_digits(weights).astype(">u2")
    return {"way": "digits"}, [plane.tobytes() for plane in codes.reshape(-1).view(np.uint8).reshape(-1, 2).T]


def encode_factors(weights: Array, q: Array, k: Array, scale: float, visible: Array | None) -> Encoded:
    """A and B in whole multiples of a step, then the corrections."""
    true = three_digits(weights)
    a, b = balanced(scale * q, k - k.mean(0))  # what all keys share moves a whole row, which softmax undoes
    spread = float((a**2).sum(-1).mean() + (b**2).sum(-1).mean())
    step = TOLERANCE / np.sqrt(spread / 12 or 1.0)
    while True:
        whole_a, whole_b = np.rint(a / step), np.rint(b / step)
        found = three_digits(softmax((whole_a @ whole_b.T) * (step * step), visible))
        wrong = true - found
        far = np.flatnonzero(np.abs(wrong) > 1)
        if len(far) <= FAR:
            break
        step /= 2
    head = {"way": "factors", "rank": a.shape[1], "step": step}
    head["far"] = [[int(place), int(true.flat[place])] for place in far]
    wrong.flat[far] = 0
    signs = wrong[wrong != 0] > 0
    packed_a, head["a"] = planes(whole_a)
    packed_b, head["b"] = planes(whole_b)
    bits = [np.packbits(part.reshape(-1), bitorder="little").tobytes() for part in (wrong != 0, signs)]
    return head, [*packed_a, *packed_b, *bits]


def balanced(q: Array, k: Array) -> tuple[Array, Array]:
    """A and B with A Bᵀ = q kᵀ and columns of equal length in both, the longest first.

    Most of a trained head lies in few directions; here those come first, and the others need few bits.
    """
    base_q, small_q = np.linalg.qr(q)
    base_k, small_k = np.linalg.qr(k)
    left, sizes, right = np.linalg.svd(small_q @ small_k.T)
    rank = min(len(sizes), max(int((sizes > 1e-9 * sizes[0]).sum()), 1))
    root = np.sqrt(sizes[:rank])
    return (base_q @ left[:, :rank]) * root, (base_k @ right.T[:, :rank]) * root


def planes(whole: Array) -> tuple[list[bytes], dict[str, int]]:
    """Whole numbers column by column as bytes: all lowest bytes, then all next ones, …

    The lowest are noise, which deflate leaves as it is; the highest are mostly alike, which it shrinks.

    >>> planes(np.array([[-1.0], [300.0]]))
    ([b'\\x00-', b'\\x00\\x01'], {'least': -1, 'bytes': 2})
    """
    least = int(whole.min())
    rising = (whole.T - least).astype("<u8")
    count = max(1, -(-int(rising.max()).bit_length() // 8))
    found = rising.reshape(-1).view(np.uint8).reshape(-1, 8).T[:count]
    return [plane.tobytes() for plane in found], {"least": least, "bytes": count}


def deflated(parts: list[bytes]) -> bytes:
    """The parts one after another as one raw deflate stream, each in the way that makes it smallest.

    Noise with a skewed distribution is best coded byte by byte, repetition by looking back; a stream may
    change from one to the other at every full flush.
    """
    stream = b""
    for i, part in enumerate(parts):
        end = zlib.Z_FINISH if i == len(parts) - 1 else zlib.Z_FULL_FLUSH
        ways = [
            zlib.compressobj(6, zlib.DEFLATED, -15, 9, way) for way in (zlib.Z_HUFFMAN_ONLY, zlib.Z_DEFAULT_STRATEGY)
        ]
        stream += min((way.compress(part) + way.flush(end) for way in ways), key=len)
    return stream


def packed_text(parts: list[bytes]) -> tuple[str, int]:
    """Deflated and in base 85, with the number of bytes before padding; safe inside a script element.

    >>> packed_text([b"aaaa"])
    ('OH52m1ONa4', 6)
    """
    packed = deflated(parts)
    words = np.frombuffer(packed + bytes(-len(packed) % 4), dtype=">u4").astype(np.uint32)
    digits = np.empty((len(words), 5), dtype=np.uint8)
    for place in range(4, -1, -1):
        words, digits[:, place] = np.divmod(words, 85)
    return ALPHABET[digits].tobytes().decode("ascii"), len(packed)


def encode(layer: Any, h: int, weights: Array, total: int) -> Encoded:
    """One head, in the way that fits what is given and how many weights the page will hold."""
    if total <= EXACT_UP_TO:
        return encode_exact(weights)
    if isinstance(layer, Factors):
        rank, (queries, keys) = min(layer.q.shape[-1], *weights.shape), weights.shape
        if 13 * rank * (queries + keys) < 11 * queries * keys:
            q, k, visible = layer.head(h)
            return encode_factors(weights, q, k, layer.scale or 0.0, visible)
    return encode_digits(weights)


def weights_of(layer: Any, h: int) -> Array:
    """The weights (L, S) of one head of a layer, however it is given."""
    return layer.weights(h) if isinstance(layer, Factors) else layer[h]
