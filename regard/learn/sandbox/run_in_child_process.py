"""Run a learner's code in a new, restricted process and return its outcomes.

The process is `python -I` in its own session and in a temporary folder, without standard input and with an almost empty
environment; `child_program.py` restricts it further. There are two time limits. Importing torch takes seconds on slow
machines, so starting has a generous limit of its own. The learner's 5 seconds begin when the child signals that it is
ready. When either limit is exceeded, the whole process group is killed.
"""

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regard.learn.sandbox import child_program as child
from regard.learn.sandbox import serialization

Failure = Literal["timeout", "memory", "stopped", "unreadable", "large"]


class QueueFull(RuntimeError):
    """The queue of waiting runs is full."""


@dataclass(frozen=True)
class Limits:
    """Limits of one run.

    >>> Limits(seconds=1.0).memory == 2**30
    True
    """

    seconds: float = 5.0  # wall-clock time of the learner's code
    start: float = 60.0  # wall-clock time of the imports before it, in seconds
    memory: int = 1 << 30  # bytes beyond those used by the libraries
    file_size: int = 32 << 20  # largest size in bytes of any file that the child writes, including the outcomes
    output: int = 32 << 10  # bytes of printed text that are kept


@dataclass(frozen=True)
class Run:
    """The result of `call_all`, or the failure that prevented it."""

    answer: dict[str, Any] | None
    failure: Failure | None
    printed: str
    seconds: float


@dataclass(frozen=True)
class Request:
    """A source, the names it must define, and the serialized arguments of each case."""

    source: str
    names: Sequence[str]
    cases: Sequence[bytes]
    uses: Literal["numpy", "torch"] = "numpy"
    drive: str | None = None


@dataclass
class Runner:
    """Run requests, at most `max_parallel` at once; up to `max_waiting` more wait.

    >>> square = Request("def f(x): return x * x", ["f"], [serialization.pack((3,))])
    >>> serialization.unpack(Runner().run(square).answer["outcomes"][0]["value"])
    9
    """

    max_parallel: int = 2
    max_waiting: int = 64
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.max_parallel < 1 or self.max_waiting < 0:
            raise ValueError(
                f"max_parallel must be at least 1 and max_waiting at least 0, "
                f"got {self.max_parallel} and {self.max_waiting}"
            )
        self._running = threading.Semaphore(self.max_parallel)
        self._accepted = threading.Semaphore(self.max_parallel + self.max_waiting)

    def run(self, request: Request) -> Run:
        """Run the request as soon as a slot is free; raise `QueueFull` if too many are waiting."""
        if not self._accepted.acquire(blocking=False):
            raise QueueFull(f"{self.max_parallel} runs are active and {self.max_waiting} are waiting; try again later")
        try:
            with self._running:
                return run_once(request, self.limits)
        finally:
            self._accepted.release()


def run_once(request: Request, limits: Limits) -> Run:
    """Run the request in a new process."""
    if not hasattr(os, "killpg"):
        raise OSError("running a learner's code needs Linux or macOS, where process groups can be limited and killed")
    with tempfile.TemporaryDirectory(prefix="regard-run-", ignore_cleanup_errors=True) as folder:
        request_file, result, work = Path(folder, "request"), Path(folder, "result"), Path(folder, "work")
        work.mkdir()
        message = {
            "source": request.source,
            "names": list(request.names),
            "cases": list(request.cases),
            "uses": request.uses,
            "drive": request.drive,
            "seconds": limits.seconds,
            "memory": limits.memory,
            "file_size": limits.file_size,
        }
        request_file.write_bytes(serialization.pack(message))
        with _start_child(request_file, result, work) as (process, ready):
            timed_out, printed, seconds = _wait(process, ready, limits)
        if timed_out:
            return Run(None, "timeout", printed, seconds)
        failure, answer = _read_result(result, process.returncode, limits.file_size)
        return Run(answer, failure, printed, seconds)


@contextmanager
def _start_child(
    request: Path, result: Path, work: Path, script: Path = Path(child.__file__)
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yield the child and the pipe on which it signals that it is ready; kill its process group at the end."""
    ready, ready_writer = os.pipe()
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
    )
    library_paths = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", "-X", "utf8", str(script), str(request), str(result), str(ready_writer)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=work,
        env={"HOME": str(work), "TMPDIR": str(work), "PATH": os.defpath, "LANG": "C.UTF-8", **threads, **library_paths},
        pass_fds=[ready_writer],
        start_new_session=True,
    )
    os.close(ready_writer)
    try:
        yield process, ready
    finally:
        # Kill before reaping the child: afterwards its process id may belong to another process.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ready)
        assert process.stdout is not None
        process.stdout.close()


def _wait(process: subprocess.Popen[bytes], ready: int, limits: Limits) -> tuple[bool, str, float]:
    """Wait for the end of the child; return whether it timed out, the text it printed, and its seconds."""
    assert process.stdout is not None
    out = process.stdout.fileno()
    printed, start = bytearray(), None
    deadline = time.monotonic() + limits.start
    with selectors.DefaultSelector() as open_pipes:
        for pipe in (out, ready):
            os.set_blocking(pipe, False)
            open_pipes.register(pipe, selectors.EVENT_READ)
        while not (ended := _has_ended(process)) and time.monotonic() < deadline:
            for key, _ in open_pipes.select(timeout=0.02):
                data = os.read(key.fd, 1 << 16)
                if key.fd == out:
                    printed += data[: limits.output - len(printed)]
                elif data:
                    start = time.monotonic()
                    deadline = start + limits.seconds
                if not data:
                    open_pipes.unregister(key.fd)
            if not open_pipes.get_map():
                time.sleep(0.005)
    while ended and (data := _read_rest(out)):
        printed += data[: limits.output - len(printed)]
    text = printed.decode(errors="replace")
    if start is None and ended and _read_rest(ready):
        start = time.monotonic()  # on a busy machine the child may be ready and done before the first check
    if start is None:
        reason = "ended before it was ready" if ended else f"was not ready within {limits.start:g} s"
        raise ChildProcessError(f"the process for the exercise {reason}: {text[-600:].strip()}")
    return not ended, text, time.monotonic() - start


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the child has ended, without reaping it where possible (not on macOS before Python 3.13)."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _read_rest(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1 << 16)
    except BlockingIOError:
        return b""


def _read_result(result: Path, code: int, max_size: int) -> tuple[Failure | None, dict[str, Any] | None]:
    """Return the failure, if any, and the answer of the child in the result file, if there is one."""
    if code == -signal.SIGXCPU:
        return "timeout", None
    if code == child.OUT_OF_MEMORY:
        return "memory", None
    size = result.stat().st_size
    if code != 0 or size == 0:
        return "stopped", None
    if size > max_size:
        return "large", None
    try:
        answer = serialization.unpack(result.read_bytes())
    except ValueError:
        return "unreadable", None
    if not isinstance(answer, dict):
        return "unreadable", None
    return ("large", None) if "large" in answer else (None, answer)
