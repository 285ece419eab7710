"""Engines: where the workers run."""

import hashlib
import pickle
import secrets
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from regard.parallel.local_pools import CallingThreadPool, ProcessPool, ThreadPool
from regard.parallel.pool import Pool
from regard.parallel.shared_values import Handle, Shared, Unsent
from regard.parallel.work import R, T, Work


class Engine(ABC):
    """Starts pools of workers, and shares values with them.

    >>> from regard.parallel import make_engine
    >>> with make_engine("processes", processes=2) as engine:
    ...     engine.workers
    2
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    @abstractmethod
    def workers(self) -> int:
        """Number of tasks that a new pool computes at the same time."""

    @property
    @abstractmethod
    def same_files(self) -> bool:
        """Whether the workers see the files of this machine."""

    @abstractmethod
    def start(self, work: Work[T, R]) -> Pool[T, R]:
        """Start workers."""

    @abstractmethod
    def share(self, value: Any, *, per_node: bool = False) -> Handle:
        """Return a handle of a value that workers and tasks need; `per_node` as in the work that uses it."""

    @abstractmethod
    def close(self) -> None:
        """Remove shared values and leave the cluster."""


class LocalEngine(Engine):
    """Processes of this machine; with one process, everything is computed in this one.

    processes   number of processes

    >>> LocalEngine(2).workers
    2
    """

    same_files = True

    def __init__(self, processes: int = 1) -> None:
        if processes < 1:
            raise ValueError(f"processes must be at least 1, got {processes}")
        self.processes = processes
        self._folder: Path | None = None
        self._handles: weakref.WeakValueDictionary[str, Shared] = weakref.WeakValueDictionary()

    @property
    def workers(self) -> int:
        return self.processes

    def start(self, work: Work[T, R]) -> Pool[T, R]:
        if work.per_node or (work.background and self.processes == 1):
            return ThreadPool(work, self.processes)
        if self.processes == 1:
            return CallingThreadPool(work)
        return ProcessPool(work, self.processes)

    def share(self, value: Any, *, per_node: bool = False) -> Handle:
        if per_node or self.processes == 1:
            return Unsent(value)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="regard-"))
        content = pickle.dumps(value)
        digest = hashlib.sha256(content).hexdigest()
        handle = self._handles.get(digest)
        if handle is None:
            file = self._folder / f"{digest}-{secrets.token_hex(4)}"
            file.write_bytes(content)
            handle = self._handles[digest] = Shared(digest, Path.read_bytes, file)
            weakref.finalize(handle, file.unlink, missing_ok=True)  # no task needs it any more
        return handle

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


@contextmanager
def engine_or_local(engine: Engine | None, processes: int = 1) -> Iterator[Engine]:
    """Yield the engine, or if it is None, a new one of local processes, which is closed at the end.

    >>> with engine_or_local(None, processes=2) as engine:
    ...     engine.workers
    2
    """
    if engine is not None:
        yield engine
        return
    with LocalEngine(processes) as own:
        yield own
