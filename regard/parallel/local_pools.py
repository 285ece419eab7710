"""Pools on this machine: in the calling thread, in threads that share memory, and in several processes.

Every process has its own pipe, so a killed process damages nothing that others use.
"""

import atexit
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from queue import Empty, SimpleQueue
from typing import Any

from regard.parallel.pool import Attempt, Pool, WorkerError, logger
from regard.parallel.work import R, T, Work, cancel_with


class CallingThreadPool(Pool[T, R]):
    """Compute one task after another in the calling thread."""

    def __init__(self, work: Work[T, R]) -> None:
        super().__init__(work)
        self._function: Callable[[T], R] | None = None

    @property
    def slots(self) -> int:
        return 1

    @property
    def workers(self) -> int:
        return 1

    def _poll(self, timeout: float) -> None:
        if self._function is None:
            self._function = self.work.start()
        if self._waiting:
            attempt = self._waiting.popleft()
            try:
                result = self.work(self._function, attempt.task)
            except ImportError:  # a missing extra
                raise
            except Exception:
                self._fail(attempt, traceback.format_exc(), lost=False)
            else:
                self._succeed(attempt, result)

    def close(self) -> None:
        """Nothing runs between two calls."""


class ThreadPool(Pool[T, R]):
    """Compute tasks in daemon threads of this process, which call one prepared function."""

    def __init__(self, work: Work[T, R], threads: int) -> None:
        super().__init__(work)
        self._threads = threads
        self._closed = threading.Event()
        self._function = work.start()
        self._tasks: SimpleQueue[Attempt[T] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[Attempt[T], bool, Any]] = SimpleQueue()
        for _ in range(threads):
            # Daemon threads, so that the program can end during a long task.
            threading.Thread(target=self._serve, daemon=True).start()

    @property
    def slots(self) -> int:
        return self._threads

    @property
    def workers(self) -> int:
        return 1

    def _serve(self) -> None:
        cancel_with(self._closed)
        while (attempt := self._tasks.get()) is not None:
            try:
                self._done.put((attempt, True, self.work(self._function, attempt.task)))
            except Exception:
                self._done.put((attempt, False, traceback.format_exc()))

    def _poll(self, timeout: float) -> None:
        while self._waiting:
            self._tasks.put(self._waiting.popleft())
        try:
            while True:
                attempt, succeeded, result = self._done.get(timeout=timeout)
                if succeeded:
                    self._succeed(attempt, result)
                else:
                    self._fail(attempt, result, lost=False)
                timeout = 0.0
        except Empty:
            pass

    def close(self) -> None:
        """End the threads after the tasks that they are computing, which may look at `cancelled`."""
        self._closed.set()
        try:
            while True:
                self._tasks.get_nowait()
        except Empty:
            pass
        for _ in range(self.slots):
            self._tasks.put(None)


@dataclass
class _Worker:
    """A process with its pipe and the tasks that it holds; the first one is running."""

    process: Any
    connection: Connection
    attempts: deque[Attempt[Any]] = field(default_factory=deque)
    ready: bool = False


class ProcessPool(Pool[T, R]):
    """Compute tasks in processes; a process that ends is replaced, and its task computed again."""

    def __init__(self, work: Work[T, R], processes: int) -> None:
        super().__init__(work)
        self._processes = processes
        self._pickled = pickle.dumps(work)
        self._held: list[_Worker] = []
        atexit.register(self.close)  # a program that ends waits for its processes
        try:
            self._held.extend(self._start() for _ in range(processes))
        except BaseException:
            self.close()
            raise

    @property
    def slots(self) -> int:
        return self._processes

    @property
    def workers(self) -> int:
        return sum(worker.ready for worker in self._held)

    def _start(self) -> _Worker:
        # New processes instead of forks: the threads of numba, torch and the players do not survive a fork.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._pickled), daemon=False)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _poll(self, timeout: float) -> None:
        self._give_tasks()
        sources: dict[Any, _Worker] = {}
        for worker in self._held:
            sources |= {worker.connection: worker, worker.process.sentinel: worker}
        for worker in {id(sources[source]): sources[source] for source in wait(list(sources), timeout)}.values():
            try:
                while worker.connection.poll():
                    self._receive(worker, *worker.connection.recv())
            except (EOFError, OSError, pickle.UnpicklingError):  # the process has ended, perhaps while it was sending
                self._replace(worker)
            else:
                if not worker.process.is_alive() and not worker.connection.poll():
                    self._replace(worker)
        self._give_tasks()

    def _give_tasks(self) -> None:
        """Give waiting tasks to the workers that hold the fewest."""
        while self._waiting:
            ready = [worker for worker in self._held if worker.ready]
            worker = min(ready, key=lambda worker: len(worker.attempts), default=None)
            if worker is None or len(worker.attempts) > self.work.in_advance:
                return
            attempt = self._waiting.popleft()
            worker.attempts.append(attempt)
            try:
                worker.connection.send(attempt.task)
            except OSError:
                self._replace(worker)

    def _receive(self, worker: _Worker, kind: str, content: Any) -> None:
        if kind == "ready":
            worker.ready = True
            self._note_start()
        elif kind == "unprepared":
            raise WorkerError(f"a worker could not be prepared: {content}")
        elif kind == "result":
            self._succeed(worker.attempts.popleft(), content)
        else:
            self._fail(worker.attempts.popleft(), content, lost=False)

    def _replace(self, worker: _Worker) -> None:
        """Start a new process for one that has ended, and put its tasks back into the queue."""
        worker.process.kill()
        worker.process.join()
        worker.connection.close()
        reason = f"worker process {worker.process.pid} ended with exit code {worker.process.exitcode}"
        if not worker.ready:
            self._note_start(reason)
        self._held[self._held.index(worker)] = self._start()
        if not worker.attempts:
            logger.warning("%s; another one is started", reason)
        for number, attempt in enumerate(worker.attempts):
            if number:  # it had not begun
                self._waiting.appendleft(attempt)
            else:
                self._fail(attempt, reason, lost=True)

    def close(self) -> None:
        """End all processes at once."""
        atexit.unregister(self.close)
        for worker in self._held:
            worker.process.kill()
        for worker in self._held:
            worker.process.join()
            worker.connection.close()
        self._held.clear()


def _serve(connection: Connection, pickled: bytes) -> None:
    """Compute the tasks that arrive in the pipe until it is closed."""
    for name in ("SIGINT", "SIGHUP"):  # they reach every process of a terminal; the main process ends the workers
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work: Work[Any, Any] = pickle.loads(pickled)
        work.limit_threads()
        function = work.start()
    except Exception:
        connection.send(("unprepared", traceback.format_exc()))
        return
    connection.send(("ready", None))
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        try:
            message = "result", work(function, task)
        except Exception:
            message = "error", traceback.format_exc()
        connection.send(message)


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, however it ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
