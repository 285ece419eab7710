"""Run a learner's code in a new, isolated process and return its outcomes.

The process is `python -I` in its own session and in a temporary folder, without standard input and with an almost empty
environment; `child_program.py` isolates it further. There are two time limits. Importing torch takes seconds on slow
machines, so starting has a generous limit of its own. The learner's 5 seconds begin when the child reports that it is
ready. When either limit is exceeded, all processes of the run are killed.

Two pipes lead back: printed text, and a report. The report's first line says which layers of isolation are active; it
is written before any of the learner's code runs. The outcomes follow. Nothing is read from files that the learner's
code could replace, and everything read is bounded.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regard.learn.sandbox import child_program as child
from regard.learn.sandbox import serialization
from regard.learn.sandbox.control_group import control_group
from regard.learn.sandbox.mount_namespace import WORKSPACE
from regard.learn.sandbox.visible_text import visible_text, without_folders

Failure = Literal["timeout", "memory", "stopped", "unreadable", "large", "written"]
LIBRARY_MEMORY = 2 << 30  # bytes that a cgroup allows beyond the learner's, for the libraries
MAX_STATES = 1 << 16  # bytes of the report's first line
# Makes the modules of this folder importable without the rest of regard, which the learner's code must not see, and
# under the file name "regard". No argument of the process, traceback or code object names a folder of this machine.
START = """
import json, sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType
class Loader(SourceFileLoader):
    def get_code(self, name):
        return self.rename(super().get_code(name))
    def rename(self, code):
        constants = tuple(self.rename(part) if isinstance(part, CodeType) else part for part in code.co_consts)
        return code.replace(co_filename="regard", co_consts=constants)
class Finder:
    def __init__(self, folder):
        self.folder = folder
    def find_spec(self, name, path=None, target=None):
        package, _, module = name.rpartition(".")
        if package == "regard.learn.sandbox":
            return ModuleSpec(name, Loader(name, f"{self.folder}/{module}.py"))
for name in ("regard", "regard.learn", "regard.learn.sandbox"):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = []
def start():
    with open(int(sys.argv[1]), "rb") as request:
        settings = json.loads(request.read(int.from_bytes(request.read(8), "little")))
        message = request.read()
    sys.meta_path.insert(0, Finder(settings["modules"]))
    from regard.learn.sandbox.child_program import main
    main(settings, message, int(sys.argv[2]))
start()
"""


class QueueFull(RuntimeError):
    """The queue of waiting runs is full."""


@dataclass(frozen=True)
class Limits:
    """Limits of one run.

    seconds     wall-clock time of the learner's code
    start       wall-clock time of the imports before it, in seconds
    memory      bytes beyond those used by the libraries
    file_size   largest size in bytes of any file that the child writes, and of the outcomes
    written     bytes in all files together, and bytes printed, before the run is stopped
    files       number of files and folders
    output      bytes of printed text that are kept

    >>> Limits(seconds=1.0).memory == 2**30
    True
    """

    seconds: float = 5.0
    start: float = 60.0
    memory: int = 1 << 30
    file_size: int = 32 << 20
    written: int = 64 << 20
    files: int = 2000
    output: int = 32 << 10


@dataclass(frozen=True)
class Run:
    """The result of `call_all`, or the failure that prevented it.

    `layers` says of each layer of isolation why it was not active, "" if it was.
    """

    answer: dict[str, Any] | None
    failure: Failure | None
    printed: str
    seconds: float
    layers: Mapping[str, str] = field(default_factory=dict)

    @property
    def isolated(self) -> bool:
        """Whether the kernel protected files, other processes, the network and local services from the code.

        >>> Run(None, None, "", 0.0, {"landlock": "", "seccomp": ""}).isolated
        True
        >>> Run(None, None, "", 0.0, {"audit": "", "limits": ""}).isolated
        False
        """
        active = {layer for layer, reason in self.layers.items() if not reason}
        pairs = ({"mount", "landlock"}, {"pid", "seccomp"}, {"network", "seccomp"}, {"mount", "seccomp"})
        return all(active & pair for pair in pairs)


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
    """Runs requests in isolated processes.

    max_parallel        number of requests that run at once
    max_waiting         number of requests that may wait for them
    limits              limits of each run
    disabled_layers     layers of the sandbox to switch off, to test the other layers alone

    >>> square = Request("def f(x): return x * x", ["f"], [serialization.pack((3,))])
    >>> serialization.unpack(Runner().run(square).answer["outcomes"][0]["value"])
    9
    """

    max_parallel: int = 2
    max_waiting: int = 64
    limits: Limits = field(default_factory=Limits)
    disabled_layers: frozenset[str] = frozenset()

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
                return run_once(request, self.limits, self.disabled_layers)
        finally:
            self._accepted.release()


def run_once(request: Request, limits: Limits, disabled_layers: frozenset[str] = frozenset()) -> Run:
    """Run the request in a new process."""
    if not hasattr(os, "killpg"):
        raise OSError("running a learner's code needs Linux or macOS, where process groups can be limited and killed")
    with (
        tempfile.TemporaryDirectory(prefix="regard-run-", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile() as request_file,
        control_group(limits.memory + LIBRARY_MEMORY, "cgroup" not in disabled_layers) as (group, group_text),
    ):
        root, work = Path(folder, "root"), Path(folder, "work")
        root.mkdir()
        work.mkdir()
        settings = {
            "seconds": limits.seconds,
            "memory": limits.memory,
            "file_size": limits.file_size,
            "disk": limits.written,
            "files": limits.files,
            "result_size": limits.file_size,
            "modules": str(Path(child.__file__).parent),
            "root": str(root),
            "work": str(work),
            "cgroup": None if group is None else str(group),
            "disabled": sorted(disabled_layers),
        }
        message = {
            "source": request.source,
            "names": list(request.names),
            "cases": list(request.cases),
            "uses": request.uses,
            "drive": request.drive,
        }
        request_file.write(_with_length(json.dumps(settings).encode()) + serialization.pack(message))
        request_file.seek(0)
        with _start_child(request_file.fileno(), work) as (process, report):
            output = _wait(process, report, limits, work)
        states = {**output.states, **({} if group else {"cgroup": group_text})}
        printed = without_folders(visible_text(output.printed), str(work))
        if output.failure is not None:
            return Run(None, output.failure, printed, output.seconds, states)
        failure, answer = _read_result(output.result, process.returncode, limits.file_size)
        return Run(answer, failure, printed, output.seconds, states)


@contextmanager
def _start_child(request: int, work: Path, program: str = START) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yield the child and the pipe on which it reports; kill all its processes at the end.

    `request` is the descriptor of a file with the length of the settings, the settings and the message.
    """
    report, report_writer = os.pipe()
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
    )
    library_paths = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", "-X", "utf8", "-c", program, str(request), str(report_writer)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=work,
        env={"HOME": WORKSPACE, "TMPDIR": WORKSPACE, "PATH": os.defpath, "LANG": "C.UTF-8", **threads, **library_paths},
        pass_fds=[request, report_writer],
        start_new_session=True,
    )
    os.close(report_writer)
    try:
        yield process, report
    finally:
        # Kill before reaping the child: afterwards its process id may belong to another process.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGTERM)  # the supervisor ends processes that left its group
            _wait_until_ended(process, seconds=2.0)
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(report)
        assert process.stdout is not None
        process.stdout.close()


@dataclass
class Output:
    """What came out of a process: printed text, the layers of isolation, the packed outcomes."""

    printed: str
    states: dict[str, str]
    result: bytes
    seconds: float
    failure: Failure | None = None


def _wait(process: subprocess.Popen[bytes], report: int, limits: Limits, work: Path) -> Output:
    """Read the pipes until the child ends, or until it exceeds the time or the amount of output."""
    assert process.stdout is not None
    out = process.stdout.fileno()
    printed, reported, start = bytearray(), bytearray(), None
    printed_size, next_check = 0, 0.0
    deadline = time.monotonic() + limits.start
    failure: Failure | None = None

    def keep(pipe: int, data: bytes) -> None:
        nonlocal printed_size, start, deadline
        if pipe == out:
            printed_size += len(data)
            printed.extend(data[: limits.output - len(printed)])
            return
        reported.extend(data[: limits.file_size + MAX_STATES - len(reported)])
        if start is None and b"\n" in reported:
            start = time.monotonic()
            deadline = start + limits.seconds

    with selectors.DefaultSelector() as open_pipes:
        for pipe in (out, report):
            os.set_blocking(pipe, False)
            open_pipes.register(pipe, selectors.EVENT_READ)
        while not (ended := _has_ended(process)) and failure is None and time.monotonic() < deadline:
            for key, _ in open_pipes.select(timeout=0.02):
                if data := os.read(key.fd, 1 << 16):
                    keep(key.fd, data)
                else:
                    open_pipes.unregister(key.fd)
            if not open_pipes.get_map():
                time.sleep(0.005)
            if time.monotonic() > next_check:
                next_check = time.monotonic() + 0.25
                if printed_size > limits.written or _folder_size(work, limits.files) > limits.written:
                    failure = "written"
    if ended:
        for pipe in (out, report):
            while (data := _read_rest(pipe)) and printed_size <= limits.written:
                keep(pipe, data)
    elif failure is None:
        failure = "timeout"
    text = printed.decode(errors="replace")
    if start is None:
        reason = "ended before it was ready" if ended else f"was not ready within {limits.start:g} s"
        raise ChildProcessError(f"the process for the exercise {reason}: {text[-600:].strip()}")
    first, _, result = bytes(reported).partition(b"\n")
    return Output(text, json.loads(first), result, time.monotonic() - start, failure)


def _wait_until_ended(process: subprocess.Popen[bytes], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not _has_ended(process) and time.monotonic() < deadline:
        time.sleep(0.002)


def _folder_size(folder: Path, max_files: int) -> int:
    """Return the bytes of the files in a folder; more than any limit if there are too many files.

    Where the workspace is a tmpfs of limited size, this folder stays empty.
    """
    total = count = 0
    for place, folders, files in os.walk(folder):
        count += len(folders) + len(files)
        if count > max_files:
            return sys.maxsize
        for name in files:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _with_length(data: bytes) -> bytes:
    return len(data).to_bytes(8, "little") + data


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


def _read_result(result: bytes, code: int, max_size: int) -> tuple[Failure | None, dict[str, Any] | None]:
    """Return the failure, if any, and the answer in the child's report, if there is one."""
    if code in (-signal.SIGXCPU, child.SIGNALLED + signal.SIGXCPU):
        return "timeout", None
    if code == child.OUT_OF_MEMORY:
        return "memory", None
    if code != 0 or not result:
        return "stopped", None
    if len(result) > max_size:
        return "large", None
    try:
        answer = serialization.unpack(result)
    except ValueError:
        return "unreadable", None
    if not isinstance(answer, dict):
        return "unreadable", None
    return ("large", None) if "large" in answer else (None, answer)
