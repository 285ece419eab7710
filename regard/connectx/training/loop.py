"""A course of training, whatever the method: updates, grades, checkpoints, metrics; stopped and taken up at any time.

A method (distillation, PPO, AlphaZero) gives one update after another. Everything random in an update is drawn from a
seed made of the run's seed and the update's number, or from a state that the method keeps in the checkpoint. So a run
that was stopped does, on the same machine, bit for bit what it would have done without.
"""

import json
import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

import regard
from regard import models, training
from regard.files import write_atomic
from regard.training.interrupts import stop_requested

Metrics = dict[str, Any]


class Method(Protocol):
    """What a course trains by."""

    net: models.BoardNet
    optimizer: torch.optim.Optimizer

    def update(self, step: int, rate: float, share: float) -> Metrics:
        """One update, after this share of the training; what is to be said of it, {"loss": …, "positions": …, …}."""
        ...

    def graded(self) -> models.BoardNet:
        """The network as it would be used now."""
        ...

    def remembered(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What it must remember beside weights and optimizer: tensors, and what JSON can hold."""
        ...

    def recall(self, tensors: dict[str, Tensor], kept: dict[str, Any]) -> None:
        """Take back what `remembered` gave."""
        ...


# What a network is worth: {"error": …, "doubt": …, …}, both the smaller the better.
Grade = Callable[[models.BoardNet], Metrics]


@dataclass
class Standing:
    """How far a course is."""

    step: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    positions: int = 0
    least: float = math.inf  # what the best network has of what networks are chosen by
    best_step: int = 0
    own: dict[str, Any] = field(default_factory=dict)  # the method's


@dataclass(frozen=True)
class Course:
    """One run of training.

    method      what it trains by
    grade       what its networks are worth, every `settings.evaluate_every` updates
    settings    how long, how fast, how often
    folder      of the run: run.json, checkpoints, metrics.jsonl, and the best network as model.safetensors
    shown       hears of every row of metrics
    anew        grade the best network again first: by other positions than before, its grade says nothing
    best_by     of which of its grades the best network has least
    """

    method: Method
    grade: Grade
    settings: training.Settings
    folder: Path
    ranks: training.Ranks
    shown: Callable[[Metrics], None] = lambda row: None
    tensorboard: bool = False
    report_every: int = 10
    anew: bool = False
    best_by: str = "doubt"

    def run(self) -> Standing:
        """Train from the beginning, or from the last checkpoint."""
        settings, ranks, method = self.settings, self.ranks, self.method
        standing = self._restored()
        if self.anew and ranks.first and standing.best_step:
            best = models.load(self.folder)
            assert isinstance(best, models.BoardNet)
            standing.least = self.grade(best)[self.best_by]
        metrics = training.MetricsFile(self.folder, standing.step, self.tensorboard) if ranks.first else None
        began, worked = time.monotonic() - standing.seconds, time.process_time() - standing.processor_seconds
        since = (time.monotonic(), standing.positions)
        gathered: list[Metrics] = []
        with stop_requested() as stop, training.threads(settings.threads):
            while True:
                clock = time.monotonic() - began if ranks.first else 0.0
                standing.seconds, wanted = ranks.total(clock, stop.is_set())
                standing.processor_seconds = time.process_time() - worked
                if wanted:
                    self._save(standing)
                    raise training.Interrupted
                if settings.share(standing.step, standing.seconds) >= 1:
                    break
                rate = settings.rate(standing.step, standing.seconds)
                row = method.update(standing.step, rate, settings.share(standing.step, standing.seconds))
                standing.step += 1
                standing.positions += int(row.pop("positions"))
                gathered.append(row)
                due = standing.step % settings.evaluate_every == 0 or standing.step == settings.steps
                if due or standing.step % self.report_every == 0:
                    now = time.monotonic()
                    speed = (standing.positions - since[1]) / max(1e-9, now - since[0])
                    told = {"step": standing.step, "split": "train", **_mean(gathered), "learning_rate": rate}
                    told |= {"seconds": round(standing.seconds, 2), "positions_per_second": round(speed, 1)}
                    self._finite(told)
                    self._say(metrics, told)
                    since, gathered = (now, standing.positions), []
                if due:
                    self._grade(standing, metrics)
                    since = (time.monotonic(), standing.positions)
                if standing.step % settings.checkpoint_every == 0:
                    self._save(standing)
            if standing.step % settings.evaluate_every and standing.step != settings.steps:
                self._grade(standing, metrics)
            self._save(standing)
        return standing

    def _restored(self) -> Standing:
        path = training.latest(self.folder / "checkpoints")
        if path is None:
            return Standing()
        tensors, kept = training.load_checkpoint(path)
        mine = {name: value for name, value in tensors.items() if name.startswith("method.")}
        training.spread(
            {name: value for name, value in tensors.items() if name not in mine}, self.method.net, self.method.optimizer
        )
        known = {one.name for one in fields(Standing)}  # one who was saved by an older version is graded anew
        standing = Standing(**{name: value for name, value in kept.items() if name in known})
        self.method.recall({name.removeprefix("method."): value for name, value in mine.items()}, standing.own)
        return standing

    def _save(self, standing: Standing) -> None:
        if self.ranks.first:
            tensors, standing.own = self.method.remembered()
            kept = {name: value for name, value in vars(standing).items() if name != "step"}
            whole = training.gather(self.method.net, self.method.optimizer)
            whole |= {f"method.{name}": value.contiguous() for name, value in tensors.items()}
            with training.told(self.folder):
                training.save_checkpoint(self.folder / "checkpoints", standing.step, whole, kept)
        self.ranks.wait()

    def _grade(self, standing: Standing, metrics: training.MetricsFile | None) -> None:
        if self.ranks.first:
            net = self.method.graded()
            row = {"step": standing.step, "split": "grade", "seconds": round(standing.seconds, 2), **self.grade(net)}
            row["positions"] = standing.positions
            self._say(metrics, row)
            if row[self.best_by] < standing.least:
                standing.least, standing.best_step = row[self.best_by], standing.step
                with training.told(self.folder):
                    models.save(net, self.folder)
        self.ranks.wait()

    def _finite(self, row: Metrics) -> None:
        if not math.isfinite(row["loss"]):
            lower = f"try a lower learning rate than {self.settings.learning_rate:g}"
            raise ValueError(f"the loss is {row['loss']} at step {row['step']}: {lower}; the last checkpoint is intact")

    def _say(self, metrics: training.MetricsFile | None, row: Metrics) -> None:
        if metrics is not None:
            with training.told(self.folder):
                metrics.add(row)
            self.shown(row)


def write_about(
    folder: Path, method: str, plan: dict[str, Any], config: models.BoardConfig, settings: training.Settings,
    results: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """run.json: all that the run is made of, and at its end what it reached."""
    versions = {"regard": regard.__version__, "torch": torch.__version__, "python": platform.python_version()}
    content = {
        "format": 1, "method": method, "plan": plan, "network": config.to_dict(), "settings": asdict(settings),
        "results": results, "versions": versions,
    }  # fmt: skip
    write_atomic(folder / "run.json", json.dumps(content, indent=1) + "\n")


def read_about(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What run.json says of a run of `regard connectx train`."""
    file = Path(folder) / "run.json"
    if not file.is_file():
        raise ValueError(f"{folder} is no run of regard connectx train: it has no run.json")
    try:
        about: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        about["method"], about["plan"], about["network"], about["settings"]
    except (json.JSONDecodeError, KeyError, TypeError):
        raise ValueError(f"{file} is damaged, or was not written by regard connectx train") from None
    return about


def _mean(rows: list[Metrics]) -> Metrics:
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[-1]}
