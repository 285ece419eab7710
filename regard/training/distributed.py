"""One process or several: what they share is small, and the same code runs in both cases.

`torchrun --nproc-per-node 2 -m -- regard train …` starts several; each computes its part of every batch.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class Ranks:
    """This process among `world` of them, and the device it computes on."""

    rank: int
    world: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes the files and speaks to the user."""
        return self.rank == 0

    def total(self, *values: float) -> list[float]:
        """Each value, added up over all ranks."""
        if self.world == 1:
            return list(values)
        summed = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(summed)
        return summed.tolist()

    def add(self, tensor: Tensor) -> Tensor:
        """The tensor, added up over all ranks in place."""
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor

    def shared(self, module: nn.Module) -> nn.Module:
        """The module, or with several ranks one around it that averages their gradients."""
        if self.world == 1:
            return module
        # A 1×1 convolution's gradient has the layout that torch wants and other numbers for the steps of length 1.
        warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
        return DistributedDataParallel(module)

    def wait(self) -> None:
        """Until all ranks are here."""
        if self.world > 1:
            dist.barrier()


@contextmanager
def joined(device: str | None = None) -> Iterator[Ranks]:
    """This process's place: alone, or among those that torchrun started."""
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
