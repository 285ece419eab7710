"""A Python audit hook that refuses what an exercise does not need, with a message for the learner.

It refuses to start processes, send signals, open sockets, load native code, import regard, read files outside the
libraries, or write outside the workspace. It runs inside the interpreter that it watches: code that finds the hook's
variables, through frames, the garbage collector or torch's internals, can disarm it. Where the kernel's layers are
missing, it stops accidents and simple tricks only.
"""

import os
import signal  # noqa: F401  (imported here so that _replace_functions finds them)
import sys
import time  # noqa: F401
from contextlib import suppress
from typing import Any

READABLE_FILES = frozenset(("/dev/null", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo"))
REFUSED_EVENTS = (
    "ctypes.", "fcntl.", "ftplib.", "http.", "imaplib.", "nntplib.", "os.chdir", "os.chroot",
    "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.link", "os.posix_spawn", "os.spawn",
    "os.startfile", "os.symlink", "os.system", "poplib.", "pty.spawn", "resource.", "shutil.chown",
    "shutil.make_archive", "shutil.unpack_archive", "signal.pthread_kill", "smtplib.", "socket.", "sqlite3.",
    "subprocess.Popen", "syslog.", "telnetlib.", "urllib.", "webbrowser.",
)  # fmt: skip
FILE_CHANGES = frozenset((
    "os.chflags", "os.chmod", "os.chown", "os.lockf", "os.mkdir", "os.remove", "os.rename", "os.rmdir",
    "os.setxattr", "os.removexattr", "os.truncate", "os.utime", "shutil.copyfile", "shutil.copymode",
    "shutil.copystat", "shutil.copytree", "shutil.move", "shutil.rmtree", "tempfile.mkdtemp", "tempfile.mkstemp",
))  # fmt: skip
FUNCTIONS_WITHOUT_EVENT = {
    "_posixsubprocess": ("fork_exec",),
    "os": (
        "chroot", "mkfifo", "mknod", "pidfd_open", "sched_setaffinity", "sched_setparam", "sched_setscheduler",
        "setns", "setpgid", "setpriority", "setsid", "setuid", "unshare",
    ),
    "signal": ("pidfd_send_signal",),
    "time": ("clock_settime",),
    "torch": ("from_file",),
}  # fmt: skip


def install(folder: str, libraries: list[str], regard: str, uses: str) -> None:
    """Install the hook; it cannot be removed. `uses` is the library of the exercise: "numpy" or "torch"."""
    realpath, fspath, isdir, fsdecode = os.path.realpath, os.fspath, os.path.isdir, os.fsdecode
    path_like = (str, bytes, os.PathLike)
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    # Bound here, not looked up in a module: the learner's code can change the variables of every module.
    refused_events, file_changes, readable_files = REFUSED_EVENTS, FILE_CHANGES, READABLE_FILES
    folder, regard = realpath(folder), realpath(regard)
    library_folders = tuple(map(realpath, libraries))
    isinstance_, str_, int_, any_ = isinstance, str, int, any
    import_error, permission_error = ImportError, PermissionError

    def within(path: str, roots: tuple[str, ...]) -> bool:
        return any_(path == root or path.startswith(root + "/") for root in roots)

    def place(path: Any) -> str:
        return realpath(fsdecode(fspath(path)))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "import":
            package = str_(arguments[0]).partition(".")[0]
            if package == "regard":
                raise import_error(f"an exercise may not import {arguments[0]}; write the code yourself")
            if package == "torch" and uses == "numpy":
                raise import_error("this exercise uses NumPy; write it without torch")
        elif event == "open":
            path, _, flags = arguments
            if isinstance_(path, int_):
                return
            writes = flags & writing != 0
            real = place(path)
            inside = within(real, (folder,))
            library = within(real, library_folders) and not within(real, (regard,))
            if not inside and (writes or not (library or real in readable_files) or isdir(real)):
                raise permission_error(f"an exercise may not {'write' if writes else 'read'} {path}")
        elif event in file_changes:
            for path in arguments:
                if isinstance_(path, path_like) and not within(place(path), (folder,)):
                    raise permission_error(f"an exercise may not change {path!r}")
        elif event.startswith(refused_events):
            raise permission_error(f"an exercise may not use {event}")

    _replace_functions()
    sys.addaudithook(hook)


def _replace_functions() -> None:
    """Replace the functions of FUNCTIONS_WITHOUT_EVENT, which the audit hook cannot see, by one that refuses."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise PermissionError("an exercise may not start processes, map files or change the system")

    with suppress(ImportError):
        import _posixsubprocess  # noqa: F401  (subprocess takes its function from here)
    for module, names in FUNCTIONS_WITHOUT_EVENT.items():
        for name in names:
            if module in sys.modules and hasattr(sys.modules[module], name):
                setattr(sys.modules[module], name, refuse)
