"""Training loop for every algorithm: updates, evaluation, checkpoints and metrics.

Text models (`regard.training.supervised`) and board networks (`regard.connectx.training`) use the same loop; each
brings an `Algorithm`. Resuming is exact: every random draw of an update comes from a seed derived from the run's seed
and the number of the update, or from state that the algorithm stores in the checkpoint. On the same machine a resumed
run therefore produces the same bits as one that was never stopped.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from regard import models
from regard.files import dataclass_from_json, explain_damage
from regard.training import checkpoint
from regard.training.checkpoint import explain_disk_errors
from regard.training.distributed import Ranks
from regard.training.interrupts import Interrupted, stop_requested
from regard.training.metrics import Metrics, MetricsFile, metrics_checksum
from regard.training.settings import Settings
from regard.watching.training_telemetry.alarms import Alarm
from regard.watching.training_telemetry.telemetry import telemetry

# Names that checkpoints of earlier versions use.
OLD_FIELDS = {
    "tokens": "count", "positions": "count", "best": "best_metric", "least": "best_metric",
    "since_best": "evaluations_since_best", "own": "algorithm_state",
}  # fmt: skip
OLD_PREFIX, PREFIX = "method.", "algorithm."


class Algorithm(Protocol):
    """Produces the updates of one network.

    `unit` is the unit in which the data of an update are counted: "tokens" or "positions".
    """

    unit: ClassVar[str]

    @property
    def network(self) -> nn.Module:
        """The network that is trained."""

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer, whose state the checkpoint contains."""

    def update(self, step: int, learning_rate: float, progress: float) -> Metrics:
        """Do one update and return its metrics on this rank; `progress` runs from 0 to 1 over the training.

        The metrics contain "loss" and, under the name of `unit`, how many units all ranks learnt from; 0 if they learnt
        nothing, for example because they collected games first: this is not counted as a step. Values may be
        tensors; the loop averages them over updates and ranks, and reads them only when it reports.
        """

    def network_for_evaluation(self) -> nn.Module:
        """Return the network to evaluate and save, for example with averaged weights."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the state that a checkpoint stores beside weights and optimizer: tensors, and JSON values."""

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""


@dataclass
class TrainingState:
    """Progress of a run, stored in each checkpoint."""

    step: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0  # CPU time of the first rank
    count: int = 0  # tokens or positions processed so far
    best_metric: float = math.inf  # lowest value of the loop's `selection_metric` so far
    best_step: int = 0
    evaluations_since_best: int = 0
    metric_sums: dict[str, Any] = field(default_factory=dict)  # since the last report, weighted by tokens or positions
    metric_count: int = 0
    metrics_bytes: int = 0  # length and checksum of metrics.jsonl; "" in checkpoints of earlier versions
    metrics_checksum: str = ""
    algorithm_state: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int | float) and name != "best_metric" and not 0 <= value < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, got {value}")
        sums = self.metric_sums.values()
        if math.isnan(self.best_metric) or not all(isinstance(x, int | float) and math.isfinite(x) for x in sums):
            raise ValueError(f"expected finite sums of metrics, got {self.metric_sums}")


@dataclass
class Loop:
    """One training run."""

    algorithm: Algorithm
    evaluate: Callable[[Any], Metrics]  # returns the metrics of a network, every `settings.evaluate_every` updates
    settings: Settings
    folder: Path  # receives checkpoints, metrics.jsonl and the best network
    ranks: Ranks
    report: Callable[[Metrics], None] = lambda row: None  # called with every row of metrics
    tensorboard: bool = False  # write the metrics for TensorBoard, too
    telemetry_every: int | None = None  # measure the attention heads every so many updates, in telemetry.jsonl
    report_every: int = 10  # updates between two rows of training metrics
    selection_metric: str = "loss"  # selects the best network; lower is better
    evaluation_split: str = "valid"  # value of "split" in rows of evaluation metrics
    evaluate_on_all_ranks: bool = True  # call `evaluate` in every process, not only in the first
    reevaluate_best: bool = False  # evaluate the saved network first; needed when the evaluation data have changed
    save: Callable[[nn.Module, Path], object] = models.save  # writes the best network into the folder

    def run(self) -> TrainingState:
        """Train from the beginning, or from the last checkpoint in the folder."""
        settings, ranks, unit = self.settings, self.ranks, self.algorithm.unit
        state = self._restore()
        if self.reevaluate_best and state.best_step:
            state.best_metric = self._evaluate_network(lambda: models.load(self.folder))[0]
        metrics_file = MetricsFile(self.folder, state, self.tensorboard) if ranks.first else None
        started, cpu_started = time.monotonic() - state.seconds, time.process_time() - state.processor_seconds
        last_report, last_count = time.monotonic(), state.count
        cuda = [ranks.device.index or 0] if ranks.device.type == "cuda" else []

        watching = self._telemetry(state.step)
        with stop_requested() as stop, using_threads(settings.threads), torch.random.fork_rng(cuda), watching:
            while True:
                elapsed = time.monotonic() - started
                # Time and requests to stop are summed over ranks, so that all ranks stop at the same step.
                cpu = time.process_time() - cpu_started
                times = (elapsed, cpu) if ranks.first else (0.0, 0.0)
                state.seconds, state.processor_seconds, stops = ranks.total(*times, stop.is_set())
                spent = state.processor_seconds if settings.clock == "cpu" else state.seconds
                if stops:
                    self._save(state)
                    raise Interrupted
                progress = settings.progress(state.step, spent)
                impatient = settings.patience is not None and state.evaluations_since_best >= settings.patience
                if progress >= 1 or impatient:
                    break
                learning_rate = settings.learning_rate_at(state.step, spent)
                metrics = self.algorithm.update(state.step, learning_rate, progress)
                count = int(metrics.pop(unit))
                if not count:  # nothing was learnt, so the schedule does not advance
                    self.report({"step": state.step, "split": "preparation", **metrics})
                    continue
                state.step += 1
                for name, value in metrics.items():
                    term = count * value
                    if ranks.world > 1 and isinstance(term, torch.Tensor):
                        # Sums in float64 are exact, so they are the same if a checkpoint adds up the ranks in between.
                        term = term.double()
                    state.metric_sums[name] = state.metric_sums.get(name, 0.0) + term
                state.metric_count += count
                state.count += count

                if self._evaluation_due(state.step) or state.step % self.report_every == 0:
                    speed = (state.count - last_count) / max(1e-9, time.monotonic() - last_report)
                    sums = self._summed_metrics(state)
                    means = {name: value / (state.metric_count * ranks.world) for name, value in sums.items()}
                    row = {"step": state.step, "split": "train", **means}
                    row |= {"learning_rate": learning_rate, "seconds": round(state.seconds, 2)}
                    self._write(metrics_file, {**row, f"{unit}_per_second": round(speed, 1)})
                    state.metric_sums, state.metric_count = {}, 0
                    if self._evaluation_due(state.step):
                        self._evaluate(state, metrics_file)
                    last_report, last_count = time.monotonic(), state.count
                if state.step % settings.checkpoint_every == 0:
                    state.seconds = time.monotonic() - started
                    self._save(state)
            if state.step == 0 or not self._evaluation_due(state.step):
                self._evaluate(state, metrics_file)
            self._save(state)
        return state

    def _telemetry(self, step: int) -> AbstractContextManager[Any]:
        """Return the context that measures the attention heads; one that does nothing if that is not requested."""
        if self.telemetry_every is None or not self.ranks.first:
            return nullcontext()
        board = self.folder / "tensorboard" if self.tensorboard else None

        def on_alarm(alarm: Alarm) -> None:
            self.report({"step": alarm.step, "split": "telemetry", "message": str(alarm)})

        with explain_disk_errors(self.folder):
            file = self.folder / "telemetry.jsonl"
            options: dict[str, Any] = {"every": self.telemetry_every, "file": file, "tensorboard": board, "step": step}
            return telemetry(self.algorithm.network, **options, on_alarm=on_alarm)

    def _evaluation_due(self, step: int) -> bool:
        return step == self.settings.steps or step % self.settings.evaluate_every == 0

    def _summed_metrics(self, state: TrainingState) -> Metrics:
        """Return the sums of the metrics since the last report, over all ranks; raise if the loss is not finite."""
        totals = self.ranks.total(*(float(value) for value in state.metric_sums.values()))
        sums = dict(zip(state.metric_sums, totals, strict=True))
        if not math.isfinite(loss := sums.get("loss", 0.0)):
            raise ValueError(
                f"the loss is {loss} at step {state.step}: try a lower learning rate than "
                f"{self.settings.learning_rate:g}; {checkpoint.intact_checkpoint(self.folder)}"
            )
        return sums

    def _evaluate(self, state: TrainingState, metrics_file: MetricsFile | None) -> None:
        value, metrics, network = self._evaluate_network(self.algorithm.network_for_evaluation)
        row = {"step": state.step, "split": self.evaluation_split, "seconds": round(state.seconds, 2), **metrics}
        self._write(metrics_file, {**row, self.algorithm.unit: state.count})
        if value < state.best_metric:
            state.best_metric, state.best_step, state.evaluations_since_best = value, state.step, 0
            if self.ranks.first:
                if self.settings.store != "float32":
                    network = copy.deepcopy(network).to(getattr(torch, self.settings.store))
                with explain_disk_errors(self.folder):
                    self.save(network, self.folder)
        else:
            state.evaluations_since_best += 1

    def _evaluate_network(self, make_network: Callable[[], Any]) -> tuple[float, Metrics, Any]:
        """Return the selection metric on every rank; on ranks that evaluate, also all metrics and the network."""
        metrics, network = {}, None
        if self.ranks.first or self.evaluate_on_all_ranks:
            network = make_network()
            metrics = self.evaluate(network)
        return self.ranks.total(metrics[self.selection_metric] if self.ranks.first else 0.0)[0], metrics, network

    def _restore(self) -> TrainingState:
        path = checkpoint.latest_checkpoint(self.folder / "checkpoints")
        if path is None:
            return TrainingState()
        tensors, values = checkpoint.load_checkpoint(path)
        own = {name: name.split(".", 1)[1] for name in tensors if name.startswith((PREFIX, OLD_PREFIX))}
        algorithm_tensors = {short: tensors.pop(name) for name, short in own.items()}
        names = {entry.name for entry in fields(TrainingState)}  # checkpoints of earlier versions may hold other fields
        values = {OLD_FIELDS.get(name, name): value for name, value in values.items()}
        with explain_damage(path, "a checkpoint of this run", "remove it to use an older one, or start a new run"):
            checkpoint.restore_tensors(tensors, self.algorithm.network, self.algorithm.optimizer)
            state = dataclass_from_json(TrainingState, {name: value for name, value in values.items() if name in names})
            self.algorithm.load_state(algorithm_tensors, state.algorithm_state)
        if not self.ranks.first:  # the checkpoint holds the sums of all ranks
            state.metric_sums = dict.fromkeys(state.metric_sums, 0.0)
        return state

    def _save(self, state: TrainingState) -> None:
        sums = self._summed_metrics(state)
        if self.ranks.first:
            algorithm_tensors, state.algorithm_state = self.algorithm.state()
            state.metrics_bytes, state.metrics_checksum = metrics_checksum(self.folder)
            tensors = checkpoint.collect_tensors(self.algorithm.network, self.algorithm.optimizer)
            tensors |= {PREFIX + name: value.contiguous() for name, value in algorithm_tensors.items()}
            with explain_disk_errors(self.folder):
                values = {**vars(state), "metric_sums": sums}
                checkpoint.save_checkpoint(self.folder / "checkpoints", state.step, tensors, values)
        self.ranks.wait()

    def _write(self, metrics_file: MetricsFile | None, row: Metrics) -> None:
        if metrics_file is not None:
            with explain_disk_errors(self.folder):
                metrics_file.add(row)
            self.report(row)


@contextmanager
def using_threads(count: int | None) -> Iterator[None]:
    """Set torch's number of CPU threads temporarily; None leaves it as it is."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
