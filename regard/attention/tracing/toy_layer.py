"""Inputs for example traces: tokens, their vectors and four weight matrices, computed from a seed.

Nothing is trained. A vector is a hash of the token's text, so a word has the same vector in every sentence, on every
machine and in every version, and published traces stay reproducible.
"""

import re
from collections.abc import Sequence
from hashlib import shake_256

import numpy as np
from jaxtyping import Float

from regard.attention.integer_arguments import check_integer

Array = np.ndarray
Square = Float[Array, "D D"]
Projections = tuple[Square, Square, Square, Square]

# Scripts written without spaces: kana, Han, and the punctuation and full-width forms that go with them.
_UNSPACED = "\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uffef\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")


def tokenize(text: str) -> list[str]:
    """Split text at spaces; each Chinese or Japanese character is a token of its own.

    >>> tokenize("The cat sat on the mat")
    ['The', 'cat', 'sat', 'on', 'the', 'mat']
    >>> tokenize("猫坐在垫子上"), tokenize("GPT模型")
    (['猫', '坐', '在', '垫', '子', '上'], ['GPT', '模', '型'])
    """
    return _TOKEN.findall(text)


def embed(tokens: Sequence[str], d_model: int, seed: int = 0) -> Float[Array, "L {d_model}"]:
    """Return a vector for each token, from a hash of its text and the seed: uniform, mean 0, variance 1.

    tokens      texts of the tokens
    d_model     width of a vector
    seed        another seed gives other vectors

    The vector does not depend on context or position: the same token always has the same vector.

    >>> embed(["cat", "sat", "cat"], d_model=3).round(2)
    array([[ 0.78,  0.39,  0.71],
           [-1.7 ,  1.35,  1.37],
           [ 0.78,  0.39,  0.71]])
    """
    check_integer("d_model", d_model, 1)
    rows = [_uniform(f"{seed}\x1f{token}", d_model) for token in tokens]
    return np.array(rows, dtype=np.float64).reshape(len(tokens), d_model) * 3**0.5


def projections(d_model: int, seed: int = 0) -> Projections:
    """Return W_q, W_k, W_v and W_o for `x @ W`: normal with variance 1/d_model, so that vectors keep their length.

    d_model     D; each matrix is (D, D)
    seed        seed of the random numbers

    A larger variance gives scores in the hundreds, for which softmax returns a single 1 and zeros.

    >>> w_q, w_k, w_v, w_o = projections(8, seed=0)
    >>> w_q.shape
    (8, 8)
    """
    check_integer("d_model", d_model, 1)
    w_q, w_k, w_v, w_o = np.random.default_rng(seed).normal(size=(4, d_model, d_model)) / d_model**0.5
    return w_q, w_k, w_v, w_o


def _uniform(text: str, count: int) -> Float[Array, " {count}"]:
    """Return `count` numbers in [−1, 1) from a hash of the text; integer arithmetic, equal on all machines."""
    digest = shake_256(text.encode("utf-8", "surrogatepass")).digest(8 * count)
    return (np.frombuffer(digest, dtype="<u8") >> np.uint64(11)) * 2.0**-52 - 1.0
