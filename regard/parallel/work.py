"""What the workers of a pool do."""

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_thread = threading.local()


def cancelled() -> bool:
    """Return whether nobody waits for the task any more that this thread computes; a long task may then end early.

    >>> cancelled()
    False
    """
    event: threading.Event | None = getattr(_thread, "cancelled", None)
    return event is not None and event.is_set()


def cancel_with(event: threading.Event) -> None:
    """Let `cancelled` return True in this thread when the event is set."""
    _thread.cancelled = event


@dataclass(frozen=True)
class Work(Generic[T, R]):
    """Preparation of a worker, and how it computes tasks. Workers in other processes receive it pickled.

    prepare     called as prepare(*arguments) once in every worker; returns the function that computes a task. It must
                be a function of a module, because other processes import it
    arguments   plain data, or `Shared` values
    per_node    start one worker on each machine, whose function is called from one thread a core; for work that
                shares memory, such as a transposition table
    threads     torch threads of a task; the number is part of the result, because sums depend on it. None leaves it
    background  with a single process, compute in a thread, so that the program can stop during a long task
    in_advance  tasks that a worker holds beside the running one, so that it need not wait for the program that started
                the work; 0 is best for long tasks

    >>> def prepare(factor):
    ...     return lambda task: factor * task
    >>> Work(prepare, (3,)).start()(5)
    15
    """

    prepare: Callable[..., Callable[[T], R]]
    arguments: tuple[Any, ...] = ()
    per_node: bool = False
    threads: int | None = 1
    background: bool = False
    in_advance: int = 0

    def start(self) -> Callable[[T], R]:
        """Prepare a worker in this process and return the function that computes a task."""
        return self.prepare(*self.arguments)

    def limit_threads(self) -> None:
        """Let torch, which is imported later, use this number of threads in a process that does nothing else."""
        if self.threads is not None:
            os.environ["OMP_NUM_THREADS"] = str(self.threads)

    def __call__(self, function: Callable[[T], R], task: T) -> R:
        """Compute a task with the function that `start` returned, and with torch's number of threads set meanwhile."""
        torch = sys.modules.get("torch")
        if self.threads is None or torch is None or torch.get_num_threads() == self.threads:
            return function(task)
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            return function(task)
        finally:
            torch.set_num_threads(before)
