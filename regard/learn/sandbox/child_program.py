"""Program of the child process that runs a learner's code: `python -I child_program.py REQUEST RESULT READY_FD`.

It imports NumPy or torch, restricts itself, signals that it is ready (the learner's time starts here), runs the code on
every case and writes the outcomes. It does not know the expected results: the parent compares.

There are two kinds of restrictions. Kernel limits bound processor time, memory, file size, core dumps and processes. A
Python audit hook, which cannot be removed, refuses to start processes, send signals, open sockets, load native code,
import regard, read files outside the libraries, or write outside the temporary folder. This stops accidents and simple
tricks. It is not a security boundary: malicious code that uses torch's internals can bypass the hook, and then has the
rights of the user who started it.
"""

import importlib.util
import os
import signal  # noqa: F401  (imported here so that _replace_functions finds them)
import subprocess  # noqa: F401
import sys
import sysconfig
import time  # noqa: F401
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

OUT_OF_MEMORY = 77  # exit code: not enough memory to write the outcomes

LIBRARIES = ("numpy", "torch", "einops")
READABLE_FILES = (
    "/dev/null",
    "/dev/urandom",
    "/proc/self/statm",
    "/proc/self/status",
    "/proc/cpuinfo",
    "/proc/meminfo",
)
REFUSED_EVENTS = (
    "ctypes.", "fcntl.", "ftplib.", "http.", "imaplib.", "nntplib.", "os.chdir", "os.chroot", "os.exec", "os.fork",
    "os.forkpty", "os.kill", "os.killpg", "os.link", "os.posix_spawn", "os.spawn", "os.startfile", "os.symlink",
    "os.system", "poplib.", "pty.spawn", "resource.", "shutil.chown", "shutil.make_archive", "shutil.unpack_archive",
    "signal.pthread_kill", "smtplib.", "socket.", "sqlite3.", "subprocess.Popen", "syslog.", "telnetlib.", "urllib.",
    "webbrowser.",
)  # fmt: skip
FILE_CHANGES = (
    "os.chflags", "os.chmod", "os.chown", "os.lockf", "os.mkdir", "os.remove", "os.rename", "os.rmdir",
    "os.setxattr", "os.removexattr", "os.truncate", "os.utime", "shutil.copyfile", "shutil.copymode",
    "shutil.copystat", "shutil.copytree", "shutil.move", "shutil.rmtree", "tempfile.mkdtemp", "tempfile.mkstemp",
)  # fmt: skip
FUNCTIONS_WITHOUT_EVENT = {
    "_posixsubprocess": ("fork_exec",),
    "os": (
        "chroot", "mkfifo", "mknod", "pidfd_open", "sched_setaffinity", "sched_setparam", "sched_setscheduler",
        "setns", "setpgid", "setpriority", "setsid", "setuid", "unshare",
    ),
    "signal": ("pidfd_send_signal",),
    "subprocess": ("_fork_exec",),
    "time": ("clock_settime",),
    "torch": ("from_file",),
}  # fmt: skip


def main(request: str, result: str, ready: int) -> None:
    """Read the request, run it with restrictions, write the result, and exit at once even if threads are running."""
    here = Path(__file__).parent
    serialization, call_code = (_load(here / f"{name}.py") for name in ("serialization", "call_on_cases"))
    message = serialization.unpack(Path(request).read_bytes(), serialization.native)
    import einops  # noqa: F401

    if message["uses"] == "torch":
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(0)
    result_file = open(result, "wb")  # noqa: SIM115  (the audit hook refuses to open it later)
    limit(message["seconds"], message["memory"], message["file_size"])
    _install_audit_hook(os.getcwd(), str(here.parents[1]))
    os.write(ready, b"!")
    os.close(ready)
    try:
        outcomes = call_code.call_all(
            message["source"], message["names"], message["drive"], message["cases"], serialization
        )
        packed = serialization.pack(outcomes)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    result_file.write(packed if len(packed) <= message["file_size"] else serialization.pack({"large": len(packed)}))
    result_file.close()
    os._exit(0)


def limit(seconds: float, memory: int, file_size: int) -> None:
    """Set kernel limits of this process: `seconds` and `memory` are allowed beyond the amounts used so far."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = int(used.ru_utime + used.ru_stime + seconds) + 2
    limits = [
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),  # no new processes or threads; BLAS runs on one thread
    ]
    if os.path.exists("/proc/self/statm"):  # macOS ignores this limit
        with open("/proc/self/statm") as sizes:
            used_bytes = int(sizes.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limits.append((resource.RLIMIT_AS, used_bytes + memory))
    for which, value in limits:
        resource.setrlimit(which, (value, value))


def _install_audit_hook(folder: str, regard: str) -> None:
    """Install an audit hook that refuses the operations listed in the module's docstring; it cannot be removed."""
    realpath, fspath, isdir, fsdecode = os.path.realpath, os.fspath, os.path.isdir, os.fsdecode
    folder, regard = realpath(folder), realpath(regard)
    paths = sysconfig.get_paths()
    libraries = {realpath(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    libraries |= {realpath(Path(sys.modules[name].__file__ or "").parent) for name in LIBRARIES if name in sys.modules}

    def within(path: str, roots: set[str]) -> bool:
        return any(path == root or path.startswith(root + "/") for root in roots)

    def place(path: Any) -> str:
        return realpath(fsdecode(fspath(path)))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "import":
            if str(arguments[0]).partition(".")[0] == "regard":
                raise ImportError(f"an exercise may not import {arguments[0]}; write the code yourself")
        elif event == "open":
            path, _, flags = arguments
            if isinstance(path, int):
                return
            writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND))
            real = place(path)
            inside = within(real, {folder})
            library = within(real, libraries) and not within(real, {regard})
            if not inside and (writes or not (library or real in READABLE_FILES) or isdir(real)):
                raise PermissionError(f"an exercise may not {'write' if writes else 'read'} {path}")
        elif event in FILE_CHANGES:
            for path in arguments:
                if isinstance(path, str | bytes | os.PathLike) and not within(place(path), {folder}):
                    raise PermissionError(f"an exercise may not change {path!r}")
        elif event.startswith(REFUSED_EVENTS):
            raise PermissionError(f"an exercise may not use {event}")

    _replace_functions()
    sys.addaudithook(hook)


def _replace_functions() -> None:
    """Replace the functions of FUNCTIONS_WITHOUT_EVENT, which the audit hook cannot see, by one that refuses."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise PermissionError("an exercise may not start processes, map files or change the system")

    for module, names in FUNCTIONS_WITHOUT_EVENT.items():
        for name in names:
            if module in sys.modules and hasattr(sys.modules[module], name):
                setattr(sys.modules[module], name, refuse)


def _load(path: Path) -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    load: Callable[[ModuleType], None] = spec.loader.exec_module
    load(module)
    return module


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
