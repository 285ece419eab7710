"""Alarms: heads whose attention degenerates, found by comparing a measurement with earlier ones of the same head.

| alarm | condition |
|---|---|
| growing scores | the largest score is above `score_limit`, and at least twice as large as in the first measurement |
| entropy collapse | the entropy is below `entropy_limit` times that of the first measurement |
| not finite | entropy or largest score is NaN or infinite |

Scores grow before the loss diverges: softmax saturates, and gradients through the weights vanish or explode. A head
that has learnt to attend to one token keeps some entropy; a collapsed one has none. Each head has each alarm once,
until it recovers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from regard.watching.training_telemetry.measurements import Measurement

Kind = Literal["growing scores", "entropy collapse", "not finite"]
EVENLY = 0.05  # nats: first entropies below are those of heads that see one token only


@dataclass(frozen=True)
class Alarm:
    """A head whose attention degenerates, the step, and its number now and in the first measurement.

    >>> print(Alarm(350, "growing scores", "layers.0.attention", 3, 61.2, 2.5))
    step 350: layers.0.attention, head 3: growing scores: largest score 61.2, 2.5 at first; softmax saturates. Lower \
the learning rate, or normalize queries and keys
    """

    step: int
    kind: Kind
    module: str
    head: int
    value: float | None
    first: float | None

    def __str__(self) -> str:
        head = f"step {self.step}: {self.module or 'the model'}, head {self.head}: {self.kind}"
        advice = "Lower the learning rate, or normalize queries and keys"
        if self.kind == "growing scores":
            return f"{head}: largest score {self.value:.3g}, {self.first:.3g} at first; softmax saturates. {advice}"
        if self.kind == "entropy collapse":
            return f"{head}: entropy {self.value:.3g} nats, {self.first:.3g} at first. {advice}"
        return f"{head}: entropy or largest score is not a finite number. {advice}"

    def to_json(self) -> dict[str, Any]:
        """Return the alarm as JSON values."""
        fields = dict(vars(self))
        return {"step": fields.pop("step"), "alarm": fields.pop("kind"), **fields, "message": str(self)}


@dataclass
class AlarmRules:
    """Compares measurements with the first one of each head, and remembers which alarms are on."""

    score_limit: float = 50.0
    entropy_limit: float = 0.01
    first: dict[tuple[str, int], tuple[float | None, float | None]] = field(default_factory=dict)
    active: set[tuple[str, int, Kind]] = field(default_factory=set)

    def check(self, measurement: Measurement) -> list[Alarm]:
        """Return the alarms that are new in a measurement."""
        new = []
        for head in range(len(measurement.entropy)):
            on = {alarm.kind: alarm for alarm in self._conditions(measurement, head)}
            for kind in get_args(Kind):
                place = (measurement.module, head, kind)
                if kind in on and place not in self.active:
                    new.append(on[kind])
                (self.active.add if kind in on else self.active.discard)(place)
        return new

    def _conditions(self, x: Measurement, head: int) -> Iterator[Alarm]:
        entropy, largest = x.entropy[head], None if x.largest is None else x.largest[head]
        place = x.module, head
        if entropy is None or (x.largest is not None and largest is None):
            yield Alarm(x.step, "not finite", *place, None, None)
            return
        first_entropy, first_largest = self.first.setdefault(place, (entropy, largest))
        limit = max(self.score_limit, 2 * abs(first_largest or 0.0))
        if largest is not None and largest > limit:
            yield Alarm(x.step, "growing scores", *place, largest, first_largest)
        if first_entropy is not None and first_entropy > EVENLY and entropy < self.entropy_limit * first_entropy:
            yield Alarm(x.step, "entropy collapse", *place, entropy, first_entropy)
