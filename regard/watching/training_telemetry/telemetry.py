"""`regard.telemetry`: what the attention heads of a model do while it is trained.

A step is a step of the optimizer of the model. In every n-th step, the first forward pass is recorded: functions and
modules run as in `regard.watch`, and what they compute does not change. In all other steps nothing is replaced, so that
they take as long as without telemetry.
"""

import os
import warnings
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from regard.watching.call import Call
from regard.watching.recorder.call_site import CallSite
from regard.watching.recorder.function_mode import Recorder
from regard.watching.recorder.torch_overrides import torch_overrides
from regard.watching.recorder.wrapped_forwards import register
from regard.watching.recording import Recording
from regard.watching.training_telemetry.alarms import Alarm, AlarmRules
from regard.watching.training_telemetry.log_files import JsonLines, TensorBoard
from regard.watching.training_telemetry.measurements import Measurement, measure
from regard.watching.watch_context import run_uncompiled

NO_THREAD = -1


class _TrainingRecorder(Recorder):
    """Records the first call of each module in training, from whichever thread runs it, without its graph.

    It is entered by the forward functions of modules, not by a with-block, since it spans parts of a training loop.
    """

    keeps_graph = False

    def __init__(self, model: nn.Module) -> None:
        super().__init__(Recording(model), "inputs", lambda name: True, None, None)
        self.thread = NO_THREAD

    def is_recorded(self, name: str) -> bool:
        return torch.is_grad_enabled() and name not in self.steps and super().is_recorded(name)

    def record(self, call: Call, site: CallSite, out: Any = None, **options: Any) -> None:
        if torch.is_grad_enabled() and call.name not in self.steps:
            super().record(call, site, out, **options)


class Telemetry:
    """Measurements and alarms of a model in training; returned by `regard.telemetry`.

    model           the model in training
    every, step     measure every n-th step; number of steps of the optimizer so far
    items           batch items that are measured
    rules           when heads raise alarms
    file, board     where measurements are written
    on_alarm        called with each alarm
    measurements    one for each measured step and module that attends: `step`, `module`, and for each head `entropy`,
                    `largest` score, `sink` share, `dead`
    alarms          heads whose attention degenerates: `step`, `kind`, `module`, `head`, `value`, `first`

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 2)
    >>> optimizer = torch.optim.SGD(layer.parameters())
    >>> with regard.telemetry(layer, every=1) as telemetry:
    ...     layer(torch.randn(1, 5, 16)).sum().backward()
    ...     optimizer.step()
    >>> [len(row.entropy) for row in telemetry.measurements]     # of both heads
    [2]
    """

    def __init__(
        self,
        model: nn.Module,
        every: int,
        step: int,
        items: int,
        rules: AlarmRules,
        file: JsonLines | None,
        board: TensorBoard | None,
        on_alarm: Callable[[Alarm], object],
    ) -> None:
        self.model, self.every, self.step, self.items, self.rules = model, every, step, items, rules
        self.measurements: list[Measurement] = []
        self.alarms: list[Alarm] = []
        self._file, self._board, self._on_alarm = file, board, on_alarm
        self._optimizer: weakref.ref[Any] | None = None
        self._recorder: _TrainingRecorder | None = None
        self._recording = ExitStack()
        self._hook: Any = register_optimizer_step_post_hook(self._after_step)
        self._start_recording()

    def __enter__(self) -> "Telemetry":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop: later steps are neither counted nor measured. A step that has not ended is not measured."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
            self._stop_recording()
            if self._board is not None:
                self._board.close()

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not self._is_counted(optimizer):
            return
        recorder = self._stop_recording()
        if recorder is not None:
            self._measure(recorder)
        self.step += 1
        if self.step % self.every == 0:
            self._start_recording()

    def _is_counted(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer is the one of the model: the first that has parameters of it."""
        if self._optimizer is None or self._optimizer() is None:
            own = {id(parameter) for parameter in self.model.parameters()}
            if any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
                self._optimizer = weakref.ref(optimizer)
        return self._optimizer is not None and self._optimizer() is optimizer

    def _start_recording(self) -> None:
        self._recorder = recorder = _TrainingRecorder(self.model)
        self._recording.enter_context(run_uncompiled(recorder.recording, recorder.stack))
        self._recording.enter_context(torch_overrides)
        self._recording.enter_context(register(recorder))

    def _stop_recording(self) -> _TrainingRecorder | None:
        recorder, self._recorder = self._recorder, None
        self._recording.close()
        if recorder is not None:
            with torch._C.DisableTorchFunction():
                recorder.finish()
        return recorder

    def _measure(self, recorder: _TrainingRecorder) -> None:
        if not recorder.recording.calls and not self.measurements:
            warnings.warn(
                "regard.telemetry saw no attention call in a step of the optimizer: "
                + "; ".join(recorder.recording.remarks() or ["the model did not run with gradients"]),
                UserWarning,
                stacklevel=2,
            )
        with torch.no_grad(), torch._C.DisableTorchFunction():
            for call in recorder.recording.calls:
                try:
                    measurement = measure(call, self.step, self.items)
                except RuntimeError as error:  # tensors that the model changes in place are no longer known
                    warnings.warn(f"regard.telemetry: {error}", UserWarning, stacklevel=2)
                    continue
                self.measurements.append(measurement)
                rows: list[Measurement | Alarm] = [measurement, *self.rules.check(measurement)]
                for row in rows:
                    if self._file is not None:
                        self._file.add(row.to_json())
                    if self._board is not None:
                        self._board.add(row)
                    if isinstance(row, Alarm):
                        self.alarms.append(row)
                        self._on_alarm(row)


def telemetry(
    model: nn.Module,
    *,
    every: int = 50,
    file: str | os.PathLike[str] | None = None,
    tensorboard: str | os.PathLike[str] | None = None,
    on_alarm: Callable[[Alarm], object] | None = None,
    score_limit: float = 50.0,
    entropy_limit: float = 0.01,
    items: int = 2,
    step: int = 0,
) -> Telemetry:
    """Measure the attention heads of a model in training, every n-th step of its optimizer, until `close`.

    The result is a context manager. It holds the measurements and alarms of this process.

    every           measure the steps whose number can be divided by this, beginning with the next one
    file            JSON lines to write: a row for each measured step and module, and for each alarm
    tensorboard     folder to write for TensorBoard (extra `tensorboard`)
    on_alarm        function called with each alarm; default: warn
    score_limit     scores above are an alarm, if they were half as large in the first measurement
    entropy_limit   an entropy below this share of the first one is an alarm
    items           batch items that are measured in each step
    step            number of the next step, where training resumes; later rows of `file` are removed

    >>> import regard, torch
    >>> model = regard.nn.MultiHeadAttention(16, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with regard.telemetry(model, every=2) as telemetry:
    ...     for _ in range(4):
    ...         model(torch.randn(3, 5, 16)).square().mean().backward()
    ...         optimizer.step()
    >>> [(x.step, len(x.entropy), x.dead) for x in telemetry.measurements], telemetry.alarms
    ([(0, 2, [False, False]), (2, 2, [False, False])], [])
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"telemetry expects an nn.Module, got {type(model).__name__}")
    for name, value, least in (("every", every, 1), ("items", items, 1), ("step", step, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    for name, limit in (("score_limit", score_limit), ("entropy_limit", entropy_limit)):
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
            raise ValueError(f"{name} must be a number greater than 0, got {limit!r}")
    lines = None if file is None else JsonLines(file, step)
    board = None if tensorboard is None else TensorBoard(tensorboard, step)
    rules = AlarmRules(score_limit, entropy_limit)
    return Telemetry(model, every, step, items, rules, lines, board, on_alarm or _warn)


def _warn(alarm: Alarm) -> None:
    warnings.warn(f"regard.telemetry: {alarm}", UserWarning, stacklevel=2)
