"""A small layer to look at: tokens, their vectors and four weight matrices, all made from a seed.

Nothing here is trained. The vectors are made from the tokens' own letters, so that a word has the same vector
in every sentence, on every machine and in every version, and a trace of it can be quoted.
"""

import re
from collections.abc import Sequence
from hashlib import shake_256

import numpy as np
from jaxtyping import Float

Array = np.ndarray
Square = Float[Array, "D D"]
Projections = tuple[Square, Square, Square, Square]

# Scripts written without spaces: kana, Han, and the punctuation and full-width forms that go with them.
_UNSPACED = "\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uffef\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")


def tokenize(text: str) -> list[str]:
    """Tokens by a simple rule: text is split at spaces, and each Chinese or Japanese character is a token.

    >>> tokenize("The cat sat on the mat")
    ['The', 'cat', 'sat', 'on', 'the', 'mat']
    >>> tokenize("猫坐在垫子上"), tokenize("GPT模型")
    (['猫', '坐', '在', '垫', '子', '上'], ['GPT', '模', '型'])
    """
    return _TOKEN.findall(text)


def embed(tokens: Sequence[str], d_model: int, seed: int = 0) -> Float[Array, "L {d_model}"]:
    """A vector for each token, made from a hash of its text and the seed: uniform, mean 0, variance 1.

    Neither context nor place is in it: the same token gets the same vector wherever it stands.

    >>> embed(["cat", "sat", "cat"], d_model=3).round(2)
    array([[ 0.78,  0.39,  0.71],
           [-1.7 ,  1.35,  1.37],
           [ 0.78,  0.39,  0.71]])
    """
    if d_model < 1:
        raise ValueError(f"d_model must be at least 1, got {d_model}")
    rows = [_uniform(f"{seed}\x1f{token}", d_model) for token in tokens]
    return np.array(rows, dtype=np.float64).reshape(len(tokens), d_model) * 3**0.5


def projections(d_model: int, seed: int = 0) -> Projections:
    """W_q, W_k, W_v and W_o for `x @ W`: normal with variance 1/d_model, so that vectors keep their length.

    Wider weights make scores in the hundreds, of which softmax makes a single 1 and zeros.

    >>> w_q, w_k, w_v, w_o = projections(8, seed=0)
    >>> w_q.shape
    (8, 8)
    """
    if d_model < 1:
        raise ValueError(f"d_model must be at least 1, got {d_model}")
    w_q, w_k, w_v, w_o = np.random.default_rng(seed).normal(size=(4, d_model, d_model)) / d_model**0.5
    return w_q, w_k, w_v, w_o


def _uniform(text: str, count: int) -> Float[Array, " {count}"]:
    """`count` numbers in [−1, 1) from the text alone: integer arithmetic on its hash, the same everywhere."""
    digest = shake_256(text.encode("utf-8", "surrogatepass")).digest(8 * count)
    return (np.frombuffer(digest, dtype="<u8") >> np.uint64(11)) * 2.0**-52 - 1.0
