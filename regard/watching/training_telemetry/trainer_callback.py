"""Telemetry as a callback of `transformers.Trainer`."""

from typing import Any

from regard.extras import needs
from regard.watching.training_telemetry.telemetry import Telemetry, telemetry

with needs("demo", "TelemetryCallback"):
    from transformers import TrainerCallback


class TelemetryCallback(TrainerCallback):
    """Callback of `transformers.Trainer` that runs `regard.telemetry` while it trains.

    options     arguments of `regard.telemetry`; `file` and `tensorboard` are written by the first process only

    >>> from regard.watching import TelemetryCallback
    >>> callback = TelemetryCallback(every=50, file="telemetry.jsonl")
    >>> trainer = transformers.Trainer(model, callbacks=[callback])  # doctest: +SKIP

    `callback.telemetry` has the measurements and alarms. The largest score, the smallest entropy and the number of
    alarms are added to the logs of the trainer: `attention_largest`, `attention_entropy` and `attention_alarms`.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.telemetry: Telemetry | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Begin to measure the model, at the step from which the trainer resumes."""
        if state.is_world_process_zero:
            self.telemetry = telemetry(model, **{"step": state.global_step, **self.options})

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Add the extremes of the last measured step to the logs."""
        if logs is None or self.telemetry is None or not self.telemetry.measurements:
            return
        last = [x for x in self.telemetry.measurements if x.step == self.telemetry.measurements[-1].step]
        scores = [y for x in last for y in x.largest or () if y is not None]
        entropies = [y for x in last for y in x.entropy if y is not None]
        if scores:
            logs["attention_largest"] = max(scores)
        if entropies:
            logs["attention_entropy"] = min(entropies)
        logs["attention_alarms"] = len(self.telemetry.alarms)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop measuring."""
        if self.telemetry is not None:
            self.telemetry.close()
