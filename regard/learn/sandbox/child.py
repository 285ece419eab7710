"""What runs in the learner's process, by its path: `python -I child.py REQUEST RESULT READY_FD`.

It imports NumPy or torch, puts up the fence, says that it is ready (from there the learner's time counts), runs
the code on every case and writes the outcomes. What is right it does not know: the parent compares.

The fence has two sides. The kernel's: no more processor time, memory, file size, core dumps or processes than
allowed. Python's: an audit hook, which cannot be taken down again, refuses to start processes, send signals, open
sockets, load native code, import regard, read files outside the libraries, or write outside the temporary
folder. It holds back accidents and tricks. It is no jail: whoever means harm and knows torch's internals can get
around the hook, with the rights of the user who started it.
"""

import importlib.util
import os
import signal  # noqa: F401  (imported here so that _disarm finds them)
import subprocess  # noqa: F401
import sys
import sysconfig
import time  # noqa: F401
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

OUT_OF_MEMORY = 77  # exit code: there was not even memory to say so

LIBRARIES = ("numpy", "torch", "einops")
READABLE = ("/dev/null", "/dev/urandom", "/proc/self/statm", "/proc/self/status", "/proc/cpuinfo", "/proc/meminfo")
REFUSED = (
    "ctypes.", "fcntl.", "ftplib.", "http.", "imaplib.", "nntplib.", "os.chdir", "os.chroot", "os.exec", "os.fork",
    "os.forkpty", "os.kill", "os.killpg", "os.link", "os.posix_spawn", "os.spawn", "os.startfile", "os.symlink",
    "os.system", "poplib.", "pty.spawn", "resource.", "shutil.chown", "shutil.make_archive", "shutil.unpack_archive",
    "signal.pthread_kill", "smtplib.", "socket.", "sqlite3.", "subprocess.Popen", "syslog.", "telnetlib.", "urllib.",
    "webbrowser.",
)  # fmt: skip
CHANGES = (
    "os.chflags", "os.chmod", "os.chown", "os.lockf", "os.mkdir", "os.remove", "os.rename", "os.rmdir",
    "os.setxattr", "os.removexattr", "os.truncate", "os.utime", "shutil.copyfile", "shutil.copymode",
    "shutil.copystat", "shutil.copytree", "shutil.move", "shutil.rmtree", "tempfile.mkdtemp", "tempfile.mkstemp",
)  # fmt: skip
WITHOUT_EVENT = {
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
    """Read the request, run it behind the fence, write the result and stop at once, threads or not."""
    here = Path(__file__).parent
    serialization, calling = (_load(here / f"{name}.py") for name in ("serialization", "call_code"))
    asked = serialization.unpack(Path(request).read_bytes(), serialization.native)
    import einops  # noqa: F401

    if asked["uses"] == "torch":
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(0)
    answer = open(result, "wb")  # noqa: SIM115  (opened before the fence, written after the learner's code)
    limit(asked["seconds"], asked["memory"], asked["file_size"])
    _fence(os.getcwd(), str(here.parents[1]))
    os.write(ready, b"!")
    os.close(ready)
    try:
        outcomes = calling.call_all(asked["source"], asked["names"], asked["drive"], asked["cases"], serialization)
        packed = serialization.pack(outcomes)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    answer.write(packed if len(packed) <= asked["file_size"] else serialization.pack({"large": len(packed)}))
    answer.close()
    os._exit(0)


def limit(seconds: float, memory: int, file_size: int) -> None:
    """Have the kernel hold this process to so much more time and memory than it has used so far."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = int(used.ru_utime + used.ru_stime + seconds) + 2
    limits = [
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),  # no further process or thread: one BLAS thread needs none
    ]
    if os.path.exists("/proc/self/statm"):  # elsewhere (macOS) the kernel ignores this limit
        with open("/proc/self/statm") as sizes:
            held = int(sizes.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limits.append((resource.RLIMIT_AS, held + memory))
    for which, value in limits:
        resource.setrlimit(which, (value, value))


def _fence(folder: str, regard: str) -> None:
    """Refuse what no exercise needs, for good."""
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
                raise ImportError(f"{arguments[0]} is not available to an exercise")
        elif event == "open":
            path, _, flags = arguments
            if isinstance(path, int):
                return
            writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND))
            real = place(path)
            inside = within(real, {folder})
            library = within(real, libraries) and not within(real, {regard})
            if not inside and (writes or not (library or real in READABLE) or isdir(real)):
                raise PermissionError(f"an exercise may not {'write' if writes else 'read'} {path}")
        elif event in CHANGES:
            for path in arguments:
                if isinstance(path, str | bytes | os.PathLike) and not within(place(path), {folder}):
                    raise PermissionError(f"an exercise may not change {path!r}")
        elif event.startswith(REFUSED):
            raise PermissionError(f"an exercise may not use {event}")

    _disarm()
    sys.addaudithook(hook)


def _disarm() -> None:
    """Refuse what reaches outside the process without an audit event, too."""

    def refused(*arguments: Any, **options: Any) -> Any:
        raise PermissionError("an exercise may not reach outside its process")

    for module, names in WITHOUT_EVENT.items():
        for name in names:
            if module in sys.modules and hasattr(sys.modules[module], name):
                setattr(sys.modules[module], name, refused)


def _load(path: Path) -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    load: Callable[[ModuleType], None] = spec.loader.exec_module
    load(module)
    return module


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
