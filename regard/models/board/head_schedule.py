"""Heads whose number follows the stage of training."""

from dataclasses import dataclass
from itertools import pairwise

from regard.models.board.network import BoardNet


@dataclass(frozen=True)
class HeadSchedule:
    """At which share of training a board network gets how many heads, and how long a change takes.

    points      (share of training, heads), the first at 0
    warmup      the share of training over which a change goes from the old heads to the new

    What `apply` does depends on the share alone, so that a run that is resumed goes on as it would have.

    >>> schedule = HeadSchedule(((0.0, 2), (0.5, 4)), warmup=0.1)
    >>> schedule.at(0.25), schedule.at(0.5), schedule.at(0.55), schedule.at(0.9)        # heads, before, blend
    ((2, 2, 1.0), (4, 2, 0.0), (4, 2, 0.5), (4, 4, 1.0))
    """

    points: tuple[tuple[float, int], ...]
    warmup: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", tuple((float(share), heads) for share, heads in self.points))
        shares = [share for share, _ in self.points]
        if not shares or shares[0] != 0:
            raise ValueError(f"the first point of a schedule stands at 0, got {self.points}")
        if any(a >= b for a, b in pairwise([*shares, 1.0])):
            raise ValueError(f"the points of a schedule are rising shares of training, below 1, got {shares}")
        room = min((b - a for a, b in pairwise(shares)), default=1.0)
        if not 0 <= self.warmup <= room:
            raise ValueError(
                f"warmup is a share of training, from 0 to {room:g} so that it ends before the next change, "
                f"got {self.warmup}"
            )

    def at(self, share: float) -> tuple[int, int, float]:
        """Heads, heads before, and the share of the new ones, after this share of training."""
        if not 0 <= share <= 1:
            raise ValueError(f"the share of training that is done lies in 0 … 1, got {share}")
        passed = [(start, heads) for start, heads in self.points if start <= share]
        start, heads = passed[-1]
        before = passed[-2][1] if len(passed) > 1 else heads
        blend = min(1.0, (share - start) / self.warmup) if self.warmup and before != heads else 1.0
        return (heads, before, round(blend, 12)) if blend < 1 else (heads, heads, 1.0)

    def apply(self, net: BoardNet, share: float) -> None:
        """Give the network the heads it has after this share of training."""
        heads, before, blend = self.at(share)
        net.set_heads(heads, before=before, blend=blend)
