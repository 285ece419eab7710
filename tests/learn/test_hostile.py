"""Hostile programs are contained: by all layers of the sandbox together, and by the others when one is missing."""

import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import regard
from regard.learn import Limits, Runner, grade
from regard.learn.sandbox.run_in_child_process import Request
from regard.learn.sandbox.serialization import pack, unpack
from tests.support.hostile_programs import ATTEMPTS, HELPERS, PROGRAMS

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="uses system call numbers of Linux on x86_64"
)


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, object]]:
    with surroundings() as values:
        yield values


@contextmanager
def surroundings() -> Iterator[dict[str, object]]:
    """Yield the values of the names in the attempts: files, processes and sockets outside the sandbox."""
    # Open to everyone: only the sandbox protects it. pytest's own folders are closed to other users.
    outside = Path(tempfile.mkdtemp(prefix="regard-outside-"))
    outside.chmod(0o777)
    secret = outside / "secret"
    secret.write_text("treasure")
    secret.chmod(0o666)
    os.environ["SECRET_TOKEN"] = "hush"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as path,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        path.bind(str(outside / "socket"))
        abstract.bind(f"\0regard-hostile-{os.getpid()}")
        (outside / "socket").chmod(0o777)
        for listener in (path, abstract):
            listener.listen()
        for listener in (tcp, path, abstract):
            listener.setblocking(False)
        yield {
            "OUTSIDE": str(outside), "SECRET": str(secret), "PARENT": os.getpid(), "PORT": tcp.getsockname()[1],
            "HOME": str(Path.home()), "REGARD": str(Path(regard.__file__).parent), "listeners": (tcp, path, abstract),
        }  # fmt: skip
    del os.environ["SECRET_TOKEN"]
    shutil.rmtree(outside)


def successes(names: dict[str, object], disabled: set[str], attempts: dict[str, str] = ATTEMPTS) -> dict[str, str]:
    """Return the attempts that succeed with these layers switched off, and what they returned."""
    values = "\n".join(f"{name} = {value!r}" for name, value in names.items() if name.isupper())
    functions = "\n".join(f"def attempt_{i}():\n    {code}" for i, code in enumerate(attempts.values()))
    trying = f"""
{HELPERS}
{values}
{functions}
def f(x):
    found = []
    for i in range({len(attempts)}):
        try:
            result = globals()[f'attempt_{{i}}']()
            found.append(repr(result)[:80] if result else '')
        except BaseException as error:
            found.append('')
    return found
"""
    runner = Runner(limits=Limits(seconds=60), disabled_layers=frozenset(disabled))
    run = runner.run(Request(trying, ["f"], [pack((3,))], "numpy"))
    assert run.answer is not None, (run.failure, run.printed)
    outcome = run.answer.get("outcomes", [run.answer])[0]
    assert "value" in outcome, outcome
    found = dict(zip(attempts, unpack(outcome["value"]), strict=True))
    return {name: text for name, text in found.items() if text}


NAMESPACES = {"user", "mount", "network", "pid", "ipc", "uts"}
# Without one layer, these attempts succeed and stay inside the run: own processes, empty sockets, names in its tree.
INSIDE = {
    "landlock": {"list-root", "read-old-root"},
    "mount": {"stat-outside", "stat-home", "access-outside", "reference-metadata"},
    "seccomp": {
        "clone-syscall", "clone3-syscall", "fork", "fork-libc", "fork-syscall", "multiprocessing", "new-session",
        "memory-file-program", "signal-everyone", "signal-group", "user-namespace", "mount-namespace",
        "new-mount-interface", "change-root", "keys", "page-fault-handler", "file-watch", "personality",
        "shared-memory", "message-queue", "tcp-libc", "unix-pair", "netlink", "vsock", "io-uring",
        "performance-events",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    "layer", ["audit", "landlock", "mount", "seccomp", "identity", "user", "pid", "network", "namespaces"]
)
def test_attempts_are_contained_without(layer: str, names: dict[str, object]) -> None:
    """The audit hook is always off: only the kernel's layers are tested."""
    disabled = {"audit", *(NAMESPACES if layer == "namespaces" else {layer})}
    no_mount = layer == "namespaces" or (layer == "user" and os.geteuid() != 0)
    allowed = INSIDE["mount"] if no_mount else INSIDE.get(layer, set())
    found = successes(names, disabled)
    assert {name: text for name, text in found.items() if name not in allowed} == {}
    assert Path(str(names["SECRET"])).read_text() == "treasure"
    for listener in names["listeners"]:  # type: ignore[attr-defined]
        with pytest.raises(BlockingIOError):
            listener.accept()


AS_USER = """
from regard.learn import Limits, Runner, find_exercise, grade
from regard.learn.sandbox.layers import check_protection
from tests.learn.test_hostile import successes, surroundings
with surroundings() as names:
    assert successes(names, {"audit"}) == {}
report = check_protection()
missing = {layer.key for layer in report.layers if not layer.active}
assert missing <= {"cgroup"}, report.layers
assert not any(possible for _, possible in report.trials), report.trials
right = find_exercise("softmax").reference
assert grade("softmax", right, runner=Runner(limits=Limits(seconds=60))).passed
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to become an ordinary user")
def test_attempts_of_an_ordinary_user_are_contained(tmp_path: Path) -> None:
    """Root runs the attempts as nobody, in a mount namespace where nobody can read the Python installation."""
    home, base = str(Path.home()), sys.base_prefix
    reachable = f"""
        mount --bind {base} {tmp_path} && mount -t tmpfs -o mode=755 none {home} && mkdir -p {base} &&
        mount --bind {tmp_path} {base} &&
    """
    command = f"""{reachable if base.startswith(home + "/") else ""}
        exec setpriv --reuid 65534 --regid 65534 --clear-groups "$0" -c "$1" """
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": ":".join(sys.path),
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, sys.executable, AS_USER], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_contained(name: str, names: dict[str, object]) -> None:
    program, kinds = PROGRAMS[name]
    for word in ("OUTSIDE", "SECRET", "REGARD"):
        program = program.replace(word, str(names[word]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = 0.7 if "timeout" in kinds else 20
    verdict = grade("softmax", program, seed=0, runner=Runner(limits=Limits(seconds=seconds)))
    assert not verdict.passed
    assert verdict.kind in kinds
    yours = "" if verdict.failing is None else verdict.failing.yours
    shown = "\n".join([*verdict.title.values(), *verdict.message.values(), verdict.printed, yours])
    assert {unicodedata.category(char) for char in shown if char not in "\n\t"}.isdisjoint({"Cc", "Cf", "Cs"})
    assert len(shown) < 300_000
    assert "treasure" not in shown
    assert sorted(os.listdir(str(names["OUTSIDE"]))) == ["secret", "socket"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # KiB: the parent reads with bounds
    assert not _processes_of_runs()


def _processes_of_runs() -> list[str]:
    """Return the processes of learners' code that this process started."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and b"sandbox.child_program" in (entry / "cmdline").read_bytes():
                parent = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(parent[1]) in (1, os.getpid()) and parent[0] != "Z":
                    found.append(entry.name)
    return found
