"""Program of the process that runs a learner's code, started by `run_in_child_process`.

The process enters namespaces and forks. Its child imports NumPy or torch, gives up every right in layers, reports
which layers are active (the learner's time starts here), runs the code on every case and writes the outcomes to the
report pipe. The process itself stays outside as a supervisor: it ends everything that the child started, then itself.
The child does not know the expected results: the parent compares.

Each layer is independent of the others; one that does not exist on this machine is reported with the reason.
`regard.learn.sandbox.layers` says what each does.
"""

import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

OUT_OF_MEMORY = 77  # exit code: not enough memory to write the outcomes
SIGNALLED = 128  # exit code of a child that was ended by a signal, plus the number of the signal
FINDERS = "__editable__"  # modules with the folders of editable installations
PARENT_DEATH_SIGNAL, DUMPABLE, CHILD_SUBREAPER = 1, 4, 36  # prctl


def main(settings: dict[str, Any], message: bytes, report: int) -> None:
    """Enter namespaces and run the request, whose packed form is `message`, in a child process.

    `report` is the descriptor of the pipe for the outcomes.
    """
    gc.disable()  # importing the libraries creates hundreds of thousands of objects, none of them garbage
    from regard.learn.sandbox import mount_namespace

    linux = sys.platform == "linux"
    if linux:
        _prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    settings["is_root"] = os.geteuid() == 0
    states: dict[str, str] = {"cgroup": _enter_cgroup(settings["cgroup"])}
    if linux:
        states |= mount_namespace.enter_namespaces(set(settings["disabled"]))
        _prctl(CHILD_SUBREAPER, 1)
    child = os.fork()
    if child:
        os.close(report)
        _supervise(child, settings["seconds"])
    if linux:
        _prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    run(report, settings, message, states)


def run(report: int, settings: dict[str, Any], message: bytes, states: dict[str, str]) -> None:
    """Import the libraries, restrict this process, run the code, write the outcomes, and exit at once."""
    from regard.learn.sandbox import call_on_cases, serialization

    values = serialization.unpack(message, serialization.native)
    if values["uses"] == "torch":
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(0)
    states = restrict(settings, states, values["uses"])
    call_all, result_size = call_on_cases.call_all, settings["result_size"]
    settings.clear()
    _forget_places()
    gc.freeze()
    gc.enable()
    os.write(report, json.dumps(states).encode() + b"\n")
    try:
        outcomes = call_all(values["source"], values["names"], values["drive"], values["cases"], serialization)
        packed = serialization.pack(outcomes)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    rest = memoryview(packed if len(packed) <= result_size else serialization.pack({"large": len(packed)}))
    while rest:
        rest = rest[os.write(report, rest) :]
    os._exit(0)


def restrict(settings: dict[str, Any], states: dict[str, str], uses: str) -> dict[str, str]:
    """Apply every layer; return for each why it is not active, "" if it is."""
    from regard.learn.sandbox import (
        audit_hook,
        file_view,
        landlock,
        mount_namespace,
        privileges,
        process_limits,
        seccomp,
    )

    regard = os.path.dirname(os.path.dirname(settings["modules"]))
    libraries, roots = file_view.library_folders(), file_view.readable_roots()
    hidden = file_view.hidden_paths(libraries, regard)
    copies = [path for path in hidden if os.path.basename(path) == "regard"]
    sys.path[:] = [path for path in sys.path if any(f"{path}/".startswith(f"{folder}/") for folder in libraries)]
    disabled, states, is_root = set(settings["disabled"]), dict(states), settings["is_root"]
    threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1

    def apply(layer: str, function: Callable[..., Any], *arguments: Any) -> None:
        if layer in disabled:
            states[layer] = "switched off"
            return
        try:
            function(*arguments)
            states[layer] = ""
        except Exception as error:  # NotAvailable, OSError: this machine lacks the layer; the others still hold
            states[layer] = str(error) or type(error).__name__

    process_limits.limit_memory(settings["memory"])  # reads /proc, which is not visible later
    if not states.get("mount", "needs Linux"):
        disk = settings["disk"], settings["files"]
        apply("mount", mount_namespace.enter_file_tree, settings["root"], roots, hidden, *disk)
        if states["mount"]:
            os.chdir(settings["work"])
    if sys.platform == "linux":
        privileges.empty_bounding_set()
    states["identity"] = ""
    if is_root:
        outside, own = bool(states.get("mount", "-")), not states.get("user", "-")
        apply("identity", privileges.leave_root, [os.__file__, *libraries], outside, own)
    counted_alone = not states["identity"] and (is_root or not states.get("user", "-"))
    work = os.getcwd()
    os.environ.update(HOME=work, TMPDIR=work)
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        os.environ.pop(name, None)
    if sys.platform == "linux":
        _prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)  # the kernel forgets it when the user id changes
        with suppress(OSError):
            privileges.drop_capabilities()
    more = process_limits.THREADS if counted_alone else 0
    apply("limits", process_limits.limit, settings["seconds"], settings["file_size"], more)
    apply("landlock", landlock.restrict, work, roots, copies)
    if threads > 1 and not states["landlock"]:
        states["landlock"] = f"does not cover the {threads - 1} threads that the libraries started"
    apply("seccomp", seccomp.restrict)
    apply("audit", audit_hook.install, work, libraries, regard, uses)
    return states


def _supervise(child: int, seconds: float) -> NoReturn:
    """Wait for the child, end all processes that it left, and exit with its code; SIGTERM ends it early."""

    class Stop(BaseException):
        pass

    def stop(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Stop

    signal.signal(signal.SIGTERM, stop)
    if sys.platform == "linux":
        _prctl(DUMPABLE, 0)  # the child may not inspect the supervisor
    os.close(1)  # so that the pipes end with the child
    os.close(2)
    code = int(SIGNALLED + signal.SIGKILL)
    try:
        _, status, used = os.wait4(child, 0)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else SIGNALLED + os.WTERMSIG(status)
        if code == SIGNALLED + signal.SIGKILL and used.ru_utime + used.ru_stime > seconds:
            code = SIGNALLED + signal.SIGXCPU  # the first process of a PID namespace is not sent SIGXCPU
    except Stop:
        os.kill(child, signal.SIGKILL)
    # Orphans of the child belong to this process (a "subreaper"), unless a PID namespace has ended them already.
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) is not None:
            for process in _children():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
            os.waitpid(-1, 0)
    os._exit(code)


def _children() -> list[int]:
    """Return the processes whose parent is this one; on other systems than Linux, none are known."""
    found = []
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError), open(f"/proc/{name}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                        found.append(int(name))
    return found


def _forget_places() -> None:
    """Remove the modules of the sandbox and the names of folders outside from this interpreter."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "regard" or name.startswith(FINDERS)]:
        module = vars(sys.modules.pop(name))
        for attribute in ("__cached__", "__file__", "__loader__", "__path__", "__spec__", "MAPPING", "NAMESPACES"):
            module.pop(attribute, None)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not _knows_folders(finder)]
    sys.path_hooks[:] = [hook for hook in sys.path_hooks if not _knows_folders(hook)]
    vars(sys.modules["__main__"]).pop("Finder", None)
    for folder in [folder for folder in sys.path_importer_cache if not folder.startswith(tuple(sys.path))]:
        del sys.path_importer_cache[folder]
    sys.argv[:] = [""]
    sys.orig_argv[:] = [""]
    sys.executable = ""


def _knows_folders(finder: Any) -> bool:
    """Return whether an import finder is that of the sandbox's modules or of an editable installation."""
    kind = finder if isinstance(finder, type) else type(finder)
    return kind.__module__ == "__main__" or getattr(finder, "__module__", "").startswith(FINDERS)


def _enter_cgroup(folder: str | None) -> str:
    """Move this process into the cgroup that the parent made; return why not, "" on success."""
    if folder is None:
        return ""
    try:
        with open(os.path.join(folder, "cgroup.procs"), "w") as file:
            file.write("0")
        return ""
    except OSError as error:
        return error.strerror or "cannot be entered"


def _prctl(option: int, value: int) -> None:
    from regard.learn.sandbox.system_calls import libc_call

    with suppress(OSError):
        libc_call("prctl", option, value, 0, 0, 0)
