"""Order of the batches: examples of similar length together, determined by seed and step alone.

A resumed run needs no stored position in the data: the batch of a step is computed from its number.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

SORTED_TOGETHER = 64  # number of batches whose shuffled examples are sorted by length together


class BatchOrder:
    """Indices of each step's examples, from the length of each example; `batch` is their number over all ranks.

    >>> order = BatchOrder([3, 9, 3, 9], batch=2, seed=0)
    >>> [sorted(order(step)) for step in range(2)]      # one epoch: each example once, equal lengths together
    [[1, 3], [0, 2]]
    """

    def __init__(self, lengths: Sequence[int], batch: int, seed: int) -> None:
        if not len(lengths):
            raise ValueError("there is nothing to learn from: expected at least one example, got none; check the data")
        self.lengths, self.batch, self.seed = np.asarray(lengths), batch, seed
        self.per_epoch = max(1, len(self.lengths) // batch)
        self._epoch = lru_cache(maxsize=2)(self._shuffle)

    def __call__(self, step: int) -> list[int]:
        """Return the indices of the examples of this step."""
        epoch, number = divmod(step, self.per_epoch)
        return self._epoch(epoch)[number].tolist()

    def _shuffle(self, epoch: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, epoch])
        # Data smaller than a batch are repeated; a remainder that fills no batch is left out of this epoch.
        indices = np.resize(rng.permutation(len(self.lengths)), self.per_epoch * self.batch)
        chunks = np.split(indices, range(SORTED_TOGETHER * self.batch, len(indices), SORTED_TOGETHER * self.batch))
        by_length = [chunk[np.argsort(self.lengths[chunk], kind="stable")] for chunk in chunks]
        batches = np.concatenate(by_length).reshape(self.per_epoch, self.batch)
        return batches[rng.permutation(self.per_epoch)]
