"""Which rows of keys and values a model writes in place, so that a recorded call stays valid if it does not see them.

A cache writes the keys of new tokens into memory that earlier calls hold. A write is described by the memory that it
touches and, where rows follow each other with the same step, by its first row:

    row = (offset mod block) // step        block: memory of all rows of one head, or of one batch item

Tensors with the same step and block have the same rows, whatever their shapes: a cache of all layers in one tensor,
keys of one layer in it, and heads that are repeated by expanding them.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor


class Rows(NamedTuple):
    """Rows (dimension −2) of a tensor in memory, in numbers of elements: it begins at `start` and ends before `end`.

    `first` is the row at which the tensor begins; `step` and `block` are 0 if its rows have no common step.
    """

    start: int
    end: int
    step: int
    block: int
    first: int


def rows_of(x: Tensor) -> Rows:
    """Return the rows of a tensor (…, S, d) in memory.

    >>> import torch
    >>> cache = torch.zeros(2, 3, 4, 10, 8)                    # layers, batch, heads, places, width
    >>> rows_of(cache[1, :, :, 6:8])
    Rows(start=1008, end=1904, step=8, block=80, first=6)
    """
    shape, strides, start = x.shape, x.stride(), int(x.storage_offset())
    end = start + 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    reach, step = (shape[-2] - 1) * strides[-2], strides[-2]
    others = [(size, stride) for size, stride in zip(shape[:-2], strides[:-2], strict=True) if stride]
    block = min((stride for size, stride in others if stride >= step and (size > 1 or stride > reach)), default=0)
    within = sum((size - 1) * stride for size, stride in others if stride < step) + (shape[-1] - 1) * strides[-1]
    regular = block > reach and block % step == 0 and start % step + within < step
    if not regular or any(size > 1 and stride > step and stride % block for size, stride in others):
        return Rows(start, end, 0, 0, 0)
    return Rows(start, end, step, block, start % block // step)


@dataclass
class WriteLog:
    """What was written into a memory in place: the rows for each version of its tensors."""

    writes: dict[int, Rows] = field(default_factory=dict)

    def keeps(self, x: Tensor, count: int, since: int, now: int) -> bool:
        """Return whether the first `count` rows of a tensor are the same in two versions."""
        rows = rows_of(x)
        for version in range(since + 1, now + 1):
            write = self.writes.get(version)
            if write is None:
                return False
            apart = write.end <= rows.start or rows.end <= write.start
            same_rows = write.step and write[2:4] == rows[2:4]
            if not apart and not (same_rows and write.first >= rows.first + count):
                return False
        return True
