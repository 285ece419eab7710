"""Supervised training of text models: minimise the mean loss per predicted token."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.training.data.batches import BatchOrder
from regard.training.data.examples import IGNORED, Examples
from regard.training.distributed import Ranks
from regard.training.metrics import Metrics
from regard.training.optimizers import apply_gradients, make_optimizer
from regard.training.settings import Settings


class SummedLoss(nn.Module):
    """Loss of a batch in nats, summed over its predicted tokens.

    Not the mean, because averaging the means of ranks or accumulation rounds would weight tokens of short texts more.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tensors: Tensor | None) -> Tensor:
        """Return the model's own loss for the tensors of a batch."""
        return self.model.loss(*tensors, ignore=IGNORED, reduction="sum")  # type: ignore[operator]


@dataclass
class Supervised:
    """`Algorithm` of the training loop: each update is one optimizer step on the mean loss per token of a batch."""

    network: nn.Module
    examples: Examples
    settings: Settings
    ranks: Ranks
    unit: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        parts = self.ranks.world * self.settings.accumulate
        if self.settings.batch % parts:
            raise ValueError(
                f"the batch is divided among {self.ranks.world} ranks × {self.settings.accumulate} rounds, "
                f"so {parts} must divide batch, got {self.settings.batch}"
            )
        self.network.to(self.ranks.device)
        self.optimizer = make_optimizer(self.network, self.settings, self.ranks.device)
        self.loss = self.ranks.average_gradients(SummedLoss(self.network))
        self.order = BatchOrder(self.examples.lengths, self.settings.batch, self.settings.seed)

    def update(self, step: int, learning_rate: float, progress: float) -> Metrics:
        """Do one optimizer step on the batch of this step, in `settings.accumulate` rounds."""
        rounds, world, rank = self.settings.accumulate, self.ranks.world, self.ranks.rank
        indices, key = self.order(step), (self.settings.seed, step // self.order.per_epoch, step)
        parts = [slice(rank * rounds + number, None, world * rounds) for number in range(rounds)]
        batches = [self.examples.batch(indices, part, key).to(self.ranks.device) for part in parts]
        (count,) = self.ranks.total(sum(batch.targets for batch in batches))
        torch.manual_seed(hash((self.settings.seed, step, rank)))
        self.network.train()
        total = torch.zeros((), device=self.ranks.device)
        for number, batch in enumerate(batches):
            last = number == rounds - 1  # the ranks exchange gradients in the last round only
            with self.loss.no_sync() if not last and isinstance(self.loss, DistributedDataParallel) else nullcontext():
                with autocast(self.settings, self.ranks.device):
                    loss = self.loss(*batch.tensors)
                (loss * (world / count)).backward()  # DDP divides the sum of the ranks' gradients by their number
            total += loss.detach()
        norm = apply_gradients(self.network, self.optimizer, learning_rate, self.settings.clip)
        return {"loss": total * (world / count), "gradient_norm": norm, "tokens": count}

    def network_for_evaluation(self) -> nn.Module:
        """Return the model that is trained."""
        return self.network

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return an empty state: batches and dropout are seeded by the step, so a checkpoint needs no random state."""
        return {}, {}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Do nothing: `state` is empty."""


def mean_loss(model: nn.Module, examples: Examples, settings: Settings, ranks: Ranks) -> float:
    """Return the mean loss per token over all examples, in eval mode; each rank computes its part."""
    loss = SummedLoss(model).eval()
    order = sorted(range(len(examples.lengths)), key=lambda i: examples.lengths[i])
    total, targets = torch.zeros((), dtype=torch.float64, device=ranks.device), 0
    part = slice(ranks.rank, None, ranks.world)
    with torch.no_grad():
        for start in range(0, len(order), settings.batch):
            indices = order[start : start + settings.batch]
            if indices[part]:
                batch = examples.batch(indices, part, ()).to(ranks.device)
                with autocast(settings, ranks.device):
                    total += loss(*batch.tensors)
                targets += batch.targets
    summed, count = ranks.total(float(total), targets)
    return summed / count


def autocast(settings: Settings, device: torch.device) -> AbstractContextManager[Any]:
    """Return torch's autocast to bfloat16 if the settings request it, else a context that does nothing."""
    return nullcontext() if settings.precision == "float32" else torch.autocast(device.type, torch.bfloat16)
