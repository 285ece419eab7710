"""Run a learner's code in a fresh process that can do no harm by accident, and bring its outcomes back.

The process is a `python -I` of its own session, in a temporary folder, without input, with an almost empty
environment; `child.py` puts up the fence. Two clocks run. Importing torch takes seconds on a busy machine and is
not the learner's doing, so starting has a generous limit of its own; the learner's 5 seconds begin when the child
says that it is ready. When either is over, the whole group of processes is killed.
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

from regard.learn.sandbox import child, serialization

Trouble = Literal["timeout", "memory", "stopped", "unreadable", "large"]


class QueueFull(RuntimeError):
    """Too many runs are waiting already."""


@dataclass(frozen=True)
class Limits:
    """What a run may take."""

    seconds: float = 5.0  # of the learner's code, by the clock on the wall
    start: float = 60.0  # of the imports before it
    memory: int = 1 << 30  # bytes beyond what the libraries hold
    file_size: int = 32 << 20  # bytes of any file, the outcomes among them
    output: int = 32 << 10  # bytes kept of what it prints


@dataclass(frozen=True)
class Run:
    """What came back: the outcomes of `calling.call_all`, or what went wrong instead."""

    answer: dict[str, Any] | None
    trouble: Trouble | None
    printed: str
    seconds: float


@dataclass(frozen=True)
class Request:
    """A source, the names it must define, and the packed arguments of each case."""

    source: str
    names: Sequence[str]
    cases: Sequence[bytes]
    uses: Literal["numpy", "torch"] = "numpy"
    drive: str | None = None


@dataclass
class Runner:
    """Runs of which at most `max_parallel` go on at once; up to `max_waiting` more wait for their turn.

    >>> squared = Request("def f(x): return x * x", ["f"], [serialization.pack((3,))])
    >>> serialization.unpack(Runner().run(squared).answer["outcomes"][0]["value"])
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
        self._turns = threading.Semaphore(self.max_parallel)
        self._places = threading.Semaphore(self.max_parallel + self.max_waiting)

    def run(self, request: Request) -> Run:
        """Run the request when its turn comes; `QueueFull` when the queue is full."""
        if not self._places.acquire(blocking=False):
            raise QueueFull(
                f"{self.max_parallel} runs are going on and {self.max_waiting} are waiting; try again later"
            )
        try:
            with self._turns:
                return run_once(request, self.limits)
        finally:
            self._places.release()


def run_once(request: Request, limits: Limits) -> Run:
    """One run in a process of its own."""
    if not hasattr(os, "killpg"):
        raise OSError("running a learner's code needs Linux or macOS, whose processes can be limited and killed")
    with tempfile.TemporaryDirectory(prefix="regard-run-", ignore_cleanup_errors=True) as folder:
        asked, result, work = Path(folder, "request"), Path(folder, "result"), Path(folder, "work")
        work.mkdir()
        asked.write_bytes(serialization.pack(_asked(request, limits)))
        with _started(asked, result, work) as (process, ready):
            followed = _follow(process, ready, limits)
        if followed.trouble is None:
            trouble, answer = _read(result, process.returncode, limits.file_size)
        else:
            trouble, answer = followed.trouble, None
        return Run(answer, trouble, followed.printed, followed.seconds)


@dataclass(frozen=True)
class _Followed:
    trouble: Trouble | None
    printed: str
    seconds: float


def _asked(request: Request, limits: Limits) -> dict[str, Any]:
    return {
        "source": request.source,
        "names": list(request.names),
        "cases": list(request.cases),
        "uses": request.uses,
        "drive": request.drive,
        "seconds": limits.seconds,
        "memory": limits.memory,
        "file_size": limits.file_size,
    }


@contextmanager
def _started(
    request: Path, result: Path, work: Path, script: Path = Path(child.__file__)
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The child and the pipe on which it says that it is ready; at the end its whole group is killed."""
    ready, says = os.pipe()
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", "-X", "utf8", str(script), str(request), str(result), str(says)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=work,
        env={"HOME": str(work), "TMPDIR": str(work), "PATH": os.defpath, "LANG": "C.UTF-8", **one, **kept},
        pass_fds=[says],
        start_new_session=True,
    )
    os.close(says)
    try:
        yield process, ready
    finally:
        # Before the child is reaped, so that its number cannot be another's yet.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ready)
        assert process.stdout is not None
        process.stdout.close()


def _follow(process: subprocess.Popen[bytes], ready: int, limits: Limits) -> _Followed:
    """Wait for the end or the limit, keeping the beginning of what is printed."""
    assert process.stdout is not None
    out = process.stdout.fileno()
    printed, began = bytearray(), None
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
                    began = time.monotonic()
                    deadline = began + limits.seconds
                if not data:
                    open_pipes.unregister(key.fd)
            if not open_pipes.get_map():
                time.sleep(0.005)
    while ended and (data := _rest(out)):
        printed += data[: limits.output - len(printed)]
    said = printed.decode(errors="replace")
    if began is None and ended and _rest(ready):
        began = time.monotonic()  # on a busy machine it was ready and done before we looked
    if began is None:
        what = "ended" if ended else f"was not ready within {limits.start:g} s"
        raise ChildProcessError(
            f"the process for the exercise {what} before it could run anything: {said[-600:].strip()}"
        )
    return _Followed(None if ended else "timeout", said, time.monotonic() - began)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the child has ended, leaving it unreaped where the system can (macOS before Python 3.13 cannot)."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _rest(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1 << 16)
    except BlockingIOError:
        return b""


def _read(result: Path, code: int, most: int) -> tuple[Trouble | None, dict[str, Any] | None]:
    """The answer in the result file, or why there is none."""
    if code == -signal.SIGXCPU:
        return "timeout", None
    if code == child.OUT_OF_MEMORY:
        return "memory", None
    size = result.stat().st_size
    if code != 0 or size == 0:
        return "stopped", None
    if size > most:
        return "large", None
    try:
        answer = serialization.unpack(result.read_bytes())
    except ValueError:
        return "unreadable", None
    if not isinstance(answer, dict):
        return "unreadable", None
    return ("large", None) if "large" in answer else (None, answer)
