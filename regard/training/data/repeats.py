"""Sequences of random tokens that repeat, from which a decoder of two layers learns induction heads.

A sequence is a unit of 4 to `context` / 2 different random tokens, repeated to the end; short units are more frequent.
Only the repeated tokens can be predicted, so only they count in the loss: each follows the token that it followed last
time (Olsson et al., 2022).
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import torch

from regard.training.data.examples import IGNORED, Batch
from regard.training.tokenizer import SPECIAL

REPEATS = "repeats"
SHORTEST = 4  # tokens of a unit
PER_EPOCH, VALIDATION = 10_000, 32  # sequences
PIECES = (1, 8, 8, 8, 16, 16)  # into how many each is cut, in a random step


def syllables() -> list[str]:
    """Return the tokens of the data set "repeats".

    >>> syllables()[:3], len(syllables())
    (['ba', 'be', 'bi'], 100)
    """
    return ["".join(parts) for parts in product("bcdfghjklmnpqrstvwxz", "aeiou")]


class RepeatExamples:
    """Random sequences of context + 1 tokens; every epoch has others, and an evaluation always has the same.

    In most steps of the training each of them is cut into shorter ones of equal length, which are learnt first.
    """

    def __init__(self, count: int, context: int, vocabulary: int) -> None:
        if context < 2 * SHORTEST:
            raise ValueError(f"repeated sequences need a context of at least {2 * SHORTEST}, got {context}")
        self.tokens = np.arange(len(SPECIAL), vocabulary)
        self.context = context
        self.lengths = [context] * count

    def batch(self, indices: Sequence[int], part: slice, key: Sequence[int]) -> Batch:
        """Return the examples `indices[part]` with random tokens that depend on `key`."""
        pieces = int(np.random.default_rng([6, *key]).choice(PIECES)) if key else 1
        context = max(2 * SHORTEST, self.context // pieces)
        rows, targets = [], []
        for i in indices[part]:
            random = np.random.default_rng([5, *key, i])
            for _ in range(self.context // context):
                longest = min(context // 2, len(self.tokens))
                length = round(SHORTEST * (longest / SHORTEST) ** random.random())
                rows.append(np.resize(random.choice(self.tokens, length, replace=False), context + 1))
                targets.append(rows[-1].copy())
                targets[-1][:length] = IGNORED
        inputs, expected = (torch.from_numpy(np.stack(x)) for x in (rows, targets))
        return Batch((inputs[:, :-1], expected[:, 1:]), int((expected[:, 1:] != IGNORED).sum()))
