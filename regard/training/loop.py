"""The loop: a batch, its gradient, a step of the optimizer; evaluation, checkpoints, and going on where a run stopped.

All that is random in a step is drawn from a seed made of the run's seed, the step and the rank, and the batch of a step
follows from its number. So a run that was interrupted and resumed does what it would have done without: on a CPU, bit
for bit.
"""

import contextlib
import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard import models
from regard.training.checkpoint import gather, latest, load_checkpoint, save_checkpoint, spread
from regard.training.data.batches import Order, part
from regard.training.data.examples import Batch, Examples
from regard.training.distributed import Ranks
from regard.training.interrupts import Interrupted, stop_requested
from regard.training.metrics import Metrics, MetricsFile
from regard.training.muon import Muon, is_matrix
from regard.training.settings import Settings

REPORT_EVERY = 10


@dataclass
class State:
    """What a run remembers beside its tensors."""

    step: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0  # of the first rank
    tokens: int = 0
    best: float = math.inf
    best_step: int = 0
    since_best: int = 0
    lost: float = 0.0  # summed loss and number of tokens since the last report
    lost_over: int = 0


@dataclass(frozen=True)
class Loop:
    """One training run.

    objective   a module that holds the model and gives the summed loss of a batch
    model       the model in it, as it is saved
    learn       what it learns from
    watch       what it is evaluated on
    folder      where checkpoints, metrics and the best model go
    shown       called with every row of metrics, and every few steps with what is known in between
    """

    objective: nn.Module
    model: nn.Module
    learn: Examples
    watch: Examples
    settings: Settings
    folder: Path
    ranks: Ranks
    shown: Callable[[Metrics], None] = lambda row: None
    tensorboard: bool = False

    def run(self) -> State:
        """Train from the beginning, or from the last checkpoint in the folder."""
        settings, ranks = self.settings, self.ranks
        self._check_parts()
        self.objective.to(ranks.device)
        optimizer = optimizer_of(self.model, settings, ranks.device)
        state = self._restored(optimizer)
        metrics = MetricsFile(self.folder, state.step, self.tensorboard) if ranks.first else None
        asked = ranks.shared(self.objective)
        order = Order(self.learn.lengths, settings.batch, settings.seed)
        lost = torch.tensor(state.lost if ranks.first else 0.0, device=ranks.device)
        began, worked = time.monotonic() - state.seconds, time.process_time() - state.processor_seconds
        since, tokens_then = time.monotonic(), state.tokens

        with stop_requested() as stop, threads(settings.threads), torch.random.fork_rng(devices=_cuda(ranks.device)):
            while True:
                batches = self._batches(order, state.step)
                elapsed = time.monotonic() - began
                state.processor_seconds = time.process_time() - worked
                # One exchange tells every rank the size of the batch, the time and whether someone wants to stop.
                count, state.seconds, wanted = ranks.total(
                    sum(batch.asked for batch in batches), elapsed if ranks.first else 0.0, stop.is_set()
                )
                if wanted:
                    self._save(state, optimizer, lost)
                    raise Interrupted
                if settings.share(state.step, state.seconds) >= 1 or self._impatient(state):
                    break

                torch.manual_seed(hash((settings.seed, state.step, ranks.rank)))
                rate = settings.rate(state.step, state.seconds)
                for group in optimizer.param_groups:
                    group["lr"] = rate
                lost += self._backward(asked, batches, count)
                norm = nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                state.step += 1
                state.tokens += int(count)
                state.lost_over += int(count)

                if self._is_evaluated(state) or state.step % REPORT_EVERY == 0:
                    loss = self._finite(float(ranks.add(lost)) / state.lost_over, state.step)
                    speed = (state.tokens - tokens_then) / max(1e-9, time.monotonic() - since)
                    row = {
                        "step": state.step, "split": "train", "loss": loss, "learning_rate": rate,
                        "gradient_norm": float(norm), "seconds": state.seconds, "tokens_per_second": speed,
                    }  # fmt: skip
                    self._say(metrics, row)
                    lost.zero_()
                    state.lost_over = 0
                    if self._is_evaluated(state):
                        self._evaluate(state, metrics)
                    since, tokens_then = time.monotonic(), state.tokens
                if state.step % settings.checkpoint_every == 0:
                    state.seconds = time.monotonic() - began
                    self._save(state, optimizer, lost)
            if not self._is_evaluated(state):
                self._evaluate(state, metrics)
            self._save(state, optimizer, lost)
        return state

    def _check_parts(self) -> None:
        parts = self.ranks.world * self.settings.accumulate
        if self.settings.batch % parts:
            each = f"{self.ranks.world} ranks × {self.settings.accumulate} rounds"
            raise ValueError(f"the batch is divided among {each}, so {parts} must divide it, got {self.settings.batch}")

    def _batches(self, order: Order, step: int) -> list[Batch]:
        """This rank's share of the step's batch, a piece for each round of accumulation."""
        rounds, ranks = self.settings.accumulate, self.ranks
        places, key = order(step), (self.settings.seed, step // order.per_epoch, step)
        pieces = (part(ranks.rank * rounds + n, ranks.world * rounds) for n in range(rounds))
        return [self.learn.batch(places, piece, key).to(ranks.device) for piece in pieces]

    def _backward(self, asked: nn.Module, batches: list[Batch], count: float) -> Tensor:
        """The gradient of the mean over all tokens of all ranks; gives the sum of this rank's losses."""
        self.objective.train()
        lost = torch.zeros((), device=self.ranks.device)
        for n, batch in enumerate(batches):
            more = n < len(batches) - 1 and isinstance(asked, DistributedDataParallel)
            with asked.no_sync() if more else contextlib.nullcontext():  # type: ignore[operator]
                with mixed(self.settings, self.ranks.device):
                    loss = asked(*batch.tensors)
                (loss * (self.ranks.world / count)).backward()  # DDP takes the mean over ranks
            lost += loss.detach()
        return lost

    def _finite(self, loss: float, step: int) -> float:
        if math.isfinite(loss):
            return loss
        lower = f"try a lower learning rate than {self.settings.learning_rate:g}"
        raise ValueError(f"the loss is {loss} at step {step}: {lower}; the last checkpoint is intact")

    def _is_evaluated(self, state: State) -> bool:
        return state.step == self.settings.steps or state.step % self.settings.evaluate_every == 0

    def keep(self, model: nn.Module) -> None:
        """Write the best model so far into the folder."""
        models.save(stored(model, self.settings.store), self.folder)

    def _restored(self, optimizer: torch.optim.Optimizer) -> State:
        path = latest(self.folder / "checkpoints")
        if path is None:
            return State()
        tensors, kept = load_checkpoint(path)
        spread(tensors, self.model, optimizer)
        return State(**kept)

    def _impatient(self, state: State) -> bool:
        return self.settings.patience is not None and state.since_best >= self.settings.patience

    def _evaluate(self, state: State, metrics: MetricsFile | None) -> None:
        loss = evaluate(self.objective, self.watch, self.settings, self.ranks)
        self._say(metrics, {"step": state.step, "split": "valid", "loss": loss, "seconds": state.seconds})
        if loss < state.best:
            state.best, state.best_step, state.since_best = loss, state.step, 0
            if self.ranks.first:
                with told(self.folder):
                    self.keep(self.model)
        else:
            state.since_best += 1

    def _save(self, state: State, optimizer: torch.optim.Optimizer, lost: Tensor) -> None:
        state.lost = self._finite(float(self.ranks.add(lost.clone())), state.step)
        if self.ranks.first:
            kept = {name: value for name, value in vars(state).items() if name != "step"}
            with told(self.folder):
                save_checkpoint(self.folder / "checkpoints", state.step, gather(self.model, optimizer), kept)
        self.ranks.wait()

    def _say(self, metrics: MetricsFile | None, row: Metrics) -> None:
        if metrics is not None:
            with told(self.folder):
                metrics.add(row)
            self.shown(row)


def optimizer_of(model: nn.Module, settings: Settings, device: torch.device) -> torch.optim.Optimizer:
    """AdamW, or Muon with AdamW for what is no matrix; both decay matrices and leave biases and norms alone."""
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    by_direction = [p for p in wanted if settings.optimizer == "muon" and is_matrix(p)]
    taken = set(by_direction)
    rest: list[dict[str, Any]] = [
        {"params": [p for p in wanted if p.dim() > 1 and p not in taken]},
        {"params": [p for p in wanted if p.dim() <= 1], "weight_decay": 0.0},
    ]
    options: dict[str, Any] = {
        "lr": settings.learning_rate, "betas": settings.betas, "weight_decay": settings.weight_decay,
        "fused": device.type in ("cpu", "cuda"),
    }  # fmt: skip
    if settings.optimizer == "muon":
        return Muon(by_direction, rest, **options)
    return torch.optim.AdamW(rest, **options)


def evaluate(objective: nn.Module, examples: Examples, settings: Settings, ranks: Ranks) -> float:
    """The mean loss over all examples, in eval mode; each rank computes its part."""
    objective.eval()
    order = sorted(range(len(examples.lengths)), key=lambda i: examples.lengths[i])
    total, asked = torch.zeros((), dtype=torch.float64, device=ranks.device), 0
    with torch.no_grad():
        for start in range(0, len(order), settings.batch):
            places = order[start : start + settings.batch]
            if places[part(ranks.rank, ranks.world)]:
                batch = examples.batch(places, part(ranks.rank, ranks.world), ()).to(ranks.device)
                with mixed(settings, ranks.device):
                    total += objective(*batch.tensors)
                asked += batch.asked
    loss, count = ranks.total(float(total), asked)
    return loss / count


def mixed(settings: Settings, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Autocast, where it was asked for."""
    if settings.precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def stored(model: nn.Module, store: str) -> nn.Module:
    """The model in the numbers it is stored in."""
    return model if store == "float32" else copy.deepcopy(model).to(getattr(torch, store))


@contextlib.contextmanager
def told(folder: Path) -> Iterator[None]:
    """A disk that cannot be written to: said plainly, with what is safe and how to go on."""
    try:
        yield
    except OSError as error:
        path = latest(folder / "checkpoints")
        safe = f"the checkpoint of step {int(path.name)} is intact" if path else "no checkpoint had been written yet"
        raise OSError(f"{error}; {safe}; make room, then go on with: regard train --resume {folder}") from error


@contextlib.contextmanager
def threads(number: int | None) -> Iterator[None]:
    """So many threads of the processor, meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _cuda(device: torch.device) -> list[Tensor] | list[int]:
    return [device.index or 0] if device.type == "cuda" else []
