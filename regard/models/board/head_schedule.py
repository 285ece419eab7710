"""Schedule that changes the number of heads during training."""

from dataclasses import dataclass
from itertools import pairwise

from regard.models.board.network import BoardNet


@dataclass(frozen=True)
class HeadSchedule:
    """Number of heads of a board network as a function of training progress (0 … 1).

    points      (progress, heads), the first at progress 0
    warmup      part of the training over which the new heads gradually replace the old ones

    The result of `apply` depends on the progress only, so a resumed run continues exactly.

    >>> schedule = HeadSchedule(((0.0, 2), (0.5, 4)), warmup=0.1)
    >>> schedule.at(0.25), schedule.at(0.5), schedule.at(0.55), schedule.at(0.9)        # heads, before, blend
    ((2, 2, 1.0), (4, 2, 0.0), (4, 2, 0.5), (4, 4, 1.0))
    """

    points: tuple[tuple[float, int], ...]
    warmup: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", tuple((float(start), heads) for start, heads in self.points))
        starts = [start for start, _ in self.points]
        if not starts or starts[0] != 0:
            raise ValueError(f"the first point of a schedule must be at 0, got points {self.points}")
        if any(a >= b for a, b in pairwise([*starts, 1.0])):
            raise ValueError(f"the progress of a schedule's points must be increasing and below 1, got {starts}")
        longest = min((b - a for a, b in pairwise(starts)), default=1.0)
        if not 0 <= self.warmup <= longest:
            raise ValueError(f"warmup must be from 0 to {longest:g}, to end before the next change, got {self.warmup}")

    def at(self, progress: float) -> tuple[int, int, float]:
        """Return the current and the previous number of heads, and the share of the current one in the output."""
        if not 0 <= progress <= 1:
            raise ValueError(f"progress must be in 0 … 1, got {progress}")
        passed = [(start, heads) for start, heads in self.points if start <= progress]
        start, heads = passed[-1]
        before = passed[-2][1] if len(passed) > 1 else heads
        blend = min(1.0, (progress - start) / self.warmup) if self.warmup and before != heads else 1.0
        return (heads, before, round(blend, 12)) if blend < 1 else (heads, heads, 1.0)

    def apply(self, net: BoardNet, progress: float) -> None:
        """Set the number of heads that the network has at this progress of training."""
        heads, before, blend = self.at(progress)
        net.set_heads(heads, before=before, blend=blend)
