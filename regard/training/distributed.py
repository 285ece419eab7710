"""Data-parallel training: the same code runs in one process or in several.

`torchrun --nproc-per-node 2 -m -- regard train …` starts several processes; each computes its part of every batch.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class Ranks:
    """The rank of this process, the number of processes, and the device on which this process computes."""

    rank: int
    world: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes the files and prints."""
        return self.rank == 0

    def total(self, *values: float) -> list[float]:
        """Return each value summed over all ranks."""
        if self.world == 1:
            return list(values)
        summed = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(summed)
        return summed.tolist()

    def average_gradients(self, module: nn.Module) -> nn.Module:
        """Return the module, wrapped so that several ranks average its gradients."""
        if self.world == 1:
            return module
        # The gradient of a 1×1 convolution has the expected layout but other strides for dimensions of length 1.
        warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
        return DistributedDataParallel(module)

    def wait(self) -> None:
        """Wait until all ranks have called this method."""
        if self.world > 1:
            dist.barrier()


@contextmanager
def join_ranks(device: str | None = None) -> Iterator[Ranks]:
    """Join the process group that torchrun started, if any, and yield this process's rank."""
    world, rank, local = (int(os.environ.get(name, default)) for name, default in
                          (("WORLD_SIZE", 1), ("RANK", 0), ("LOCAL_RANK", 0)))  # fmt: skip
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    place = torch.device(kind, local) if kind == "cuda" else torch.device(kind)
    if place.type == "cuda":
        torch.cuda.set_device(place)
    if world == 1:
        yield Ranks(0, 1, place)
        return
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo")
    try:
        yield Ranks(rank, world, place)
    finally:
        dist.destroy_process_group()
