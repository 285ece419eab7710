"""Data-parallel training: the same code runs in one process or in several.

`torchrun --nproc-per-node 2 -m -- regard train …` starts several processes; each computes its part of every batch.
"""

import os
import secrets
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CONNECTION_SECONDS = 120.0  # a process that is not connected with the others after this time ends


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


def is_restarted() -> bool:
    """Return whether torchrun has started this process again, after one of the processes ended (--max-restarts).

    >>> is_restarted()
    False
    """
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def _end_without_connection() -> Iterator[None]:
    """End this process if it is not connected with the others in time, so that torchrun starts all again.

    The timeout of gloo also limits how long a process may wait for an evaluation by another one, so it is long.
    """

    def end() -> None:
        sys.stderr.write(
            f"no connection with the other processes after {CONNECTION_SECONDS:.0f} s; this one ends. Expected "
            f"{os.environ['WORLD_SIZE']} processes at {os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}: "
            "check that all have been started and can reach this address\n"
        )
        sys.stderr.flush()
        os._exit(1)

    timer = threading.Timer(CONNECTION_SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _new_store(rank: int, world: int) -> Any:
    """Return a store that only the present processes use.

    torchrun keeps its store when it starts the processes again, and gloo would find the addresses of the processes that
    have ended. The number of restarts does not tell them apart, because every machine counts its own. So each process
    announces itself with a random token, and the first one answers with the name of the new group.
    """
    store: Any = next(dist.rendezvous("env://", rank, world))[0]  # type: ignore[attr-defined]
    token = secrets.token_hex(8)
    if rank:
        store.set(f"regard/rank/{rank}", token)
        group = store.get(f"regard/group/{token}").decode()  # waits
        store.set(f"regard/joined/{group}/{rank}", "")
    else:
        group, missing = token, set(range(1, world))
        while missing:
            for other in sorted(missing):
                if store.check([f"regard/rank/{other}"]):  # perhaps of an ended process, which does not join
                    store.set(f"regard/group/{store.get(f'regard/rank/{other}').decode()}", group)
                if store.check([f"regard/joined/{group}/{other}"]):
                    missing.remove(other)
            time.sleep(0.01)
    return dist.PrefixStore(group, store)  # type: ignore[attr-defined]


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
    with _end_without_connection():
        store = _new_store(rank, world)
        dist.init_process_group("nccl" if place.type == "cuda" else "gloo", store=store, rank=rank, world_size=world)
    try:
        yield Ranks(rank, world, place)
    finally:
        dist.destroy_process_group()
