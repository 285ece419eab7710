"""Which examples make up a batch: examples of about the same length, in an order that depends on seed and step alone.

Nothing has to be remembered to go on where a run stopped: the batch of a step is computed from its number.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

TOGETHER = 64  # batches that are cut from one heap of examples, sorted by length


class Order:
    """The examples of each step, as their places in the data.

    Args:
        lengths: length of each example.
        batch: examples in a batch, those of all ranks together.
        seed: another seed, another order.

    >>> order = Order([3, 9, 3, 9], batch=2, seed=0)
    >>> [sorted(order(step)) for step in range(2)]      # one epoch: every example once, like with like
    [[1, 3], [0, 2]]
    """

    def __init__(self, lengths: Sequence[int], batch: int, seed: int) -> None:
        if not len(lengths):
            raise ValueError("there is nothing to learn from: the data holds no example")
        self.lengths = np.asarray(lengths)
        self.batch = batch
        self.seed = seed
        self.per_epoch = max(1, len(self.lengths) // batch)
        self._epoch = lru_cache(maxsize=2)(self._shuffled)

    def __call__(self, step: int) -> list[int]:
        """The examples of this step."""
        epoch, place = divmod(step, self.per_epoch)
        return self._epoch(epoch)[place].tolist()

    def _shuffled(self, epoch: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, epoch])
        # Data smaller than a batch is taken several times; a rest that fills no batch waits for the next epoch.
        places = np.resize(rng.permutation(len(self.lengths)), self.per_epoch * self.batch)
        heaps = np.split(places, range(TOGETHER * self.batch, len(places), TOGETHER * self.batch))
        alike = [heap[np.argsort(self.lengths[heap], kind="stable")] for heap in heaps]
        batches = np.concatenate(alike).reshape(self.per_epoch, self.batch)
        return batches[rng.permutation(self.per_epoch)]


def part(number: int, parts: int) -> slice:
    """The part of a batch that one rank, or one round of accumulation, computes: every so many-th example.

    >>> [list(range(6))[part(n, 3)] for n in range(3)]
    [[0, 3], [1, 4], [2, 5]]
    """
    return slice(number, None, parts)
