"""What all pools share: the queue of tasks, retries of failed tasks, progress and stopping.

A task fails if it raises an exception, or if its worker is lost: killed, or on a machine that was removed. It is
computed again, and every failure is reported as a warning of the logger `regard.parallel`. A task that raises an
exception `MOST_ERRORS` times, or whose worker is lost `MOST_LOSSES` times, ends the work with a `TaskError` that
contains its input.
"""

import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self

from regard.parallel.work import R, T, Work

MOST_ERRORS = 3
MOST_LOSSES = 20  # more, because a machine in trouble kills workers whatever they compute
MOST_FAILED_STARTS = 5  # in a row, until a worker has been ready; then MOST_LOSSES
POLL = 0.2  # seconds after which a waiting pool looks for requests to stop

logger = logging.getLogger("regard.parallel")


class TaskError(RuntimeError):
    """A task failed every time; the message contains its input and the last error.

    >>> raise TaskError("task 3 failed 3 times: ZeroDivisionError")
    Traceback (most recent call last):
    regard.parallel.pool.TaskError: task 3 failed 3 times: ZeroDivisionError
    """


class WorkerError(RuntimeError):
    """No worker could be started.

    >>> raise WorkerError("no worker could be started")
    Traceback (most recent call last):
    regard.parallel.pool.WorkerError: no worker could be started
    """


@dataclass
class Attempt(Generic[T]):
    """A task and its failures so far."""

    task: T
    errors: int = 0
    losses: int = 0


@dataclass
class Progress:
    """Numbers of tasks: finished, computed now, waiting, repeated; and the number of workers that are ready."""

    finished: int = 0
    running: int = 0
    waiting: int = 0
    retried: int = 0
    workers: int = 0


class Pool(ABC, Generic[T, R]):
    """Workers that compute tasks; `LocalEngine.start` and `RayEngine.start` return one.

    work        what every worker does

    >>> from regard.parallel import LocalEngine, Work
    >>> def prepare(factor):
    ...     return lambda task: factor * task
    >>> with LocalEngine().start(Work(prepare, (3,))) as pool:
    ...     sorted(pool.results(range(4)))
    [(0, 0), (1, 3), (2, 6), (3, 9)]
    """

    def __init__(self, work: Work[T, R]) -> None:
        self.work = work
        self.retried = self.finished = 0
        self._waiting: deque[Attempt[T]] = deque()
        self._results: deque[tuple[T, R]] = deque()
        self._unfinished = 0
        self._failed_starts, self._most_failed_starts = 0, MOST_FAILED_STARTS

    @property
    @abstractmethod
    def slots(self) -> int:
        """Number of tasks that the workers compute at the same time."""

    @property
    @abstractmethod
    def workers(self) -> int:
        """Number of workers that are ready."""

    @abstractmethod
    def _poll(self, timeout: float) -> None:
        """Give waiting tasks to workers, and wait until one of them is finished, or for `timeout` seconds."""

    @abstractmethod
    def close(self) -> None:
        """End all workers at once; what they compute is lost."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def submit(self, task: T) -> None:
        """Add a task to the queue."""
        self._unfinished += 1
        self._waiting.append(Attempt(task))

    def next_result(self, timeout: float = POLL) -> tuple[T, R] | None:
        """Return a finished task and its result; None if none is finished within `timeout` seconds."""
        if not self._results:
            self._poll(timeout)
        if not self._results:
            return None
        self._unfinished -= 1
        return self._results.popleft()

    def results(
        self, tasks: Iterable[T], *, stop: threading.Event | None = None, end: float = math.inf,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Iterator[tuple[T, R]]:  # fmt: skip
        """Yield every task with its result, in the order in which they are finished.

        Tasks are taken when workers need them. When `stop` is set, KeyboardInterrupt is raised. After the
        time `end` (of `time.monotonic`) no more results are awaited.
        """
        remaining = iter(tasks)
        exhausted = False
        while True:
            while not exhausted and self._unfinished < self.slots * (1 + self.work.in_advance) + (self.slots > 1):
                try:
                    self.submit(next(remaining))
                except StopIteration:
                    exhausted = True
            if (exhausted and not self._unfinished) or time.monotonic() > end:
                return
            if stop is not None and stop.is_set():
                raise KeyboardInterrupt
            if on_progress is not None:
                on_progress(self.progress)
            if (item := self.next_result()) is not None:
                yield item

    @property
    def progress(self) -> Progress:
        """The present numbers of tasks and workers."""
        waiting = len(self._waiting)
        running = self._unfinished - waiting - len(self._results)
        return Progress(self.finished, running, waiting, self.retried, self.workers)

    def _note_start(self, failure: str = "") -> None:
        """Note that a worker is ready, or why it ended before; raise a WorkerError after too many failures in a row."""
        if not failure:
            self._failed_starts, self._most_failed_starts = 0, MOST_LOSSES
            return
        self._failed_starts += 1
        if self._failed_starts >= self._most_failed_starts:
            raise WorkerError(f"{self._failed_starts} workers in a row ended before they were ready; {failure}")

    def _succeed(self, attempt: Attempt[T], result: R) -> None:
        self.finished += 1
        self._results.append((attempt.task, result))

    def _fail(self, attempt: Attempt[T], reason: str, *, lost: bool) -> None:
        """Put a failed task back into the queue, or raise a TaskError if it has failed too often."""
        attempt.losses += lost
        attempt.errors += not lost
        count, most = (attempt.losses, MOST_LOSSES) if lost else (attempt.errors, MOST_ERRORS)
        if count >= most:
            raise TaskError(f"the task {attempt.task!r} failed {count} times; the last time: {reason}")
        logger.warning("a task failed and is computed again (%d of %d): %s", count, most - 1, reason.splitlines()[-1])
        self.retried += 1
        self._waiting.append(attempt) if lost else self._waiting.appendleft(attempt)
