"""Tests of the child process: its limits hold, and no code in it can pass by manipulation or do harm."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import regard.learn
from regard.learn import Limits, Runner, Verdict, grade
from regard.learn.sandbox.layers import LAYERS
from regard.learn.sandbox.run_in_child_process import QueueFull, Request, Run, _wait
from regard.learn.sandbox.serialization import pack, unpack

HERE = Path(__file__).parents[2]
REFERENCE = Path(regard.learn.__file__).parent / "exercises" / "01-softmax" / "reference.py"
PATIENT = Runner(limits=Limits(seconds=30))  # where time is not the question, on a busy machine
QUICK = Runner(limits=Limits(seconds=1.5))


def run(source: str, runner: Runner = PATIENT, uses: str = "numpy") -> Run:
    return runner.run(Request(source, ["f"], [pack((3,))], uses))


def value_of(run: Run) -> object:
    assert run.answer is not None, run.failure
    outcome = run.answer["outcomes"][0]
    return unpack(outcome["value"]) if "value" in outcome else outcome["error"]


def refusals(imports: str, attempts: list[str]) -> dict[str, str | None]:
    """What each attempt raises, all of them tried in one process; None where one succeeds."""
    trying = f"""
{imports}
def tried(attempt):
    try:
        exec(attempt, globals())
    except Exception as error:
        return type(error).__name__
def f(x):
    return [tried(attempt) for attempt in {attempts!r}]
"""
    return dict(zip(attempts, value_of(run(trying)), strict=True))


def error_of(source: str) -> tuple[str, str]:
    error = value_of(run(source))
    assert isinstance(error, dict), error
    return error["type"], error["message"]


def softmax(body: str, runner: Runner = PATIENT) -> Verdict:
    return grade("softmax", body, seed=0, runner=runner)


def test_an_endless_loop_times_out() -> None:
    verdict = softmax("def softmax(x):\n    while True: pass", QUICK)
    assert (verdict.passed, verdict.kind) == (False, "timeout")
    assert "timed out" in verdict.title["en"]
    assert "timed out" in verdict.title["zh"]
    assert "1.5 seconds" in verdict.message["en"]
    assert verdict.seconds >= 1.5


def test_an_endless_loop_at_import_or_ignoring_signals_times_out() -> None:
    assert run("while True: pass", QUICK).failure == "timeout"
    deaf = "import signal\nfor s in (15, 2, 24): signal.signal(s, signal.SIG_IGN)\ndef f(x):\n    while True: pass"
    assert run(deaf, QUICK).failure == "timeout"


def test_the_time_limit_starts_after_the_imports() -> None:
    """torch takes longer to import than the limit allows for the learner's code."""
    run_in_torch = run("import torch\ndef f(x): return torch.ones(2) * x", Runner(limits=Limits(seconds=1)), "torch")
    assert run_in_torch.failure is None
    assert run_in_torch.seconds < 1


def test_exceeding_the_memory_limit_is_reported() -> None:
    small = Runner(limits=Limits(seconds=30, memory=200 << 20))
    for hog in ("np.ones(10**10)", "[' ' * 10**7 for _ in range(1000)]", "bytearray(10**11)"):
        verdict = softmax(f"import numpy as np\ndef softmax(x): return {hog}", small)
        assert (verdict.passed, verdict.kind) == (False, "memory"), hog
        assert "out of memory" in verdict.title["en"]
        assert "200 MB" in verdict.message["zh"]


def test_exiting_early_does_not_pass() -> None:
    assert softmax("import sys\ndef softmax(x): sys.exit(0)").kind == "exit"
    assert softmax("import sys\nsys.exit(0)").kind == "exit"
    assert softmax("import os\ndef softmax(x): os._exit(0)").kind == "stopped"
    assert softmax("def softmax(x): return softmax(x)").title["en"] == "Your code raises RecursionError"


def test_a_crash_is_reported() -> None:
    crash = "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f(x)"
    assert run(crash, QUICK).failure in ("stopped", "memory", "timeout")


def test_printed_text_is_limited_and_does_not_block() -> None:
    flood = run(
        "def f(x):\n    for _ in range(2000): print('x' * 1000)\n    return x", Runner(limits=Limits(output=5000))
    )
    assert value_of(flood) == 3
    assert flood.printed[:3] == "xxx"
    assert len(flood.printed) == 5000


def test_no_process_can_be_started() -> None:
    attempts = [
        "os.fork()",
        "os.forkpty()",
        "os.system('true')",
        "os.popen('true')",
        "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "os.spawnv(os.P_WAIT, '/bin/true', ['true'])",
        "subprocess.run(['true'])",
        "_posixsubprocess.fork_exec()",
        "subprocess._fork_exec()",
        "multiprocessing.Process(target=print).start()",
    ]
    assert refusals("import os, subprocess, _posixsubprocess, multiprocessing", attempts) == dict.fromkeys(
        attempts, "PermissionError"
    )


def test_a_fork_bomb_ends_with_its_process_group() -> None:
    """All started processes end with the run."""
    bomb = """
import os, time
def f(x):
    while True:
        try: os.fork()
        except PermissionError: pass
"""
    assert run(bomb, QUICK).failure == "timeout"
    assert not leftovers()


def test_the_whole_process_group_is_killed(tmp_path: Path) -> None:
    """Processes started by the child end with it: the group is killed, not only the process."""
    program = (
        "import os, sys, time\nos.write(int(sys.argv[2]), b'!')\n"
        "if os.fork() == 0:\n    open('root.pid', 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    )
    from regard.learn.sandbox import run_in_child_process as runner

    process_id = tmp_path / "root.pid"
    with runner._start_child(0, tmp_path, program) as (process, _):
        while not (process_id.exists() and process_id.read_text()):
            time.sleep(0.01)
        assert os.getpgid(int(process_id.read_text())) == process.pid
    assert ends(int(process_id.read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="adopts orphans with PR_SET_CHILD_SUBREAPER")
@pytest.mark.parametrize("failure", [None, "timeout"])
def test_a_daemon_ends_with_the_run(failure: str | None, tmp_path: Path) -> None:
    """A process that leaves the process group ends too, also without PID namespace, seccomp and cgroup."""
    note = tmp_path / "pid"
    daemon = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open({str(note)!r}, "w").write(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
while not os.path.exists({str(note)!r}) or not open({str(note)!r}).read(): time.sleep(0.01)
def f(x):
    {"return x" if failure is None else "time.sleep(60)"}
"""
    runner = Runner(limits=Limits(seconds=3), disabled_layers=frozenset(LAYERS))
    assert run(daemon, runner).failure == failure
    assert ends(int(note.read_text()))


def test_signals_do_not_reach_the_parent_or_the_group() -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
    attempts = [
        "os.kill(os.getppid(), 15)",
        "os.killpg(0, 15)",
        "os.killpg(os.getpgid(os.getppid()), 15)",
        "os.kill(-1, 15)",
        "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
        "resource.prlimit(os.getppid(), 0)",
        "signal.pthread_kill(threading.get_ident(), 15)",
    ]
    try:
        refused = refusals("import os, resource, signal, threading", attempts)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert refused == dict.fromkeys(attempts, "PermissionError")
    assert got == []


def test_the_reference_cannot_be_imported() -> None:
    attempts = ["import regard", "import regard.learn.exercise", "from regard.attention import reference"]
    assert refusals("", attempts) == dict.fromkeys(attempts, "ImportError")
    cunning = f"import sys; sys.path.insert(0, {str(HERE)!r}); sys.meta_path.reverse(); import regard.learn"
    assert refusals("", [cunning])[cunning] in ("ImportError", "PermissionError")


def test_the_reference_cannot_be_read() -> None:
    attempts = [
        f"open({str(REFERENCE)!r}).read()",
        f"os.open({str(REFERENCE)!r}, 0)",
        f"np.fromfile({str(REFERENCE)!r}, dtype='u1')",
        f"os.open({str(REFERENCE.parent)!r}, 0)",
        f"os.symlink({str(REFERENCE)!r}, 'here')",
        f"os.link({str(REFERENCE)!r}, 'here')",
        f"os.chdir({str(REFERENCE.parent)!r})",
        f"open('/proc/self/root{REFERENCE}').read()",
        "open('../request', 'rb').read()",
        "open('/etc/passwd').read()",
        "ctypes.CDLL(None)",
        "socket.socket()",
        "resource.setrlimit(0, (-1, -1))",
    ]
    imports = "import ctypes, os, resource, socket, sys\nimport numpy as np"
    assert refusals(imports, attempts) == dict.fromkeys(attempts, "PermissionError")


def test_files_stay_in_the_temporary_folder(tmp_path: Path) -> None:
    mine = tmp_path / "precious.txt"
    mine.write_text("precious")
    attempts = [
        f"open({str(mine)!r}, 'w')",
        f"open({str(mine)!r}, 'r+')",
        f"os.remove({str(mine)!r})",
        f"os.rename({str(mine)!r}, 'here')",
        f"os.truncate({str(mine)!r}, 0)",
        f"os.chmod({str(mine)!r}, 0)",
        f"os.mkfifo({str(tmp_path / 'new')!r})",
        f"os.mkdir({str(tmp_path / 'new')!r})",
        f"shutil.rmtree({str(tmp_path)!r})",
        f"np.save({str(tmp_path / 'new')!r}, 3)",
    ]
    imports = "import os, shutil\nimport numpy as np"
    assert refusals(imports, attempts) == dict.fromkeys(attempts, "PermissionError")
    assert mine.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [mine]


def test_the_temporary_folder_is_writable_and_deleted_afterwards() -> None:
    inside = "import os\ndef f(x):\n    open('note', 'w').write('mine')\n    return open('note').read(), os.getcwd()"
    text, folder = value_of(run(inside))
    assert text == "mine"
    assert not Path(folder).exists()


def test_a_file_cannot_fill_the_disk() -> None:
    small = Runner(limits=Limits(file_size=1 << 20))
    filling = run("def f(x):\n    with open('big', 'w') as big:\n        while True: big.write('x' * 10**5)", small)
    assert "File too large" in str(value_of(filling))
    assert run("import numpy as np\ndef f(x): return np.zeros(10**6)", small).failure == "large"


def test_patched_comparisons_in_the_child_have_no_effect() -> None:
    patched = """
import numpy as np, builtins, sys
always = lambda *a, **k: True
for name in ("allclose", "isclose", "array_equal", "all"): setattr(np, name, always)
np.testing.assert_allclose = always
class Equal(np.ndarray):
    __eq__ = __ne__ = lambda self, other: np.ones(self.shape, bool)
def softmax(x): return np.zeros_like(x).view(Equal)
"""
    verdict = softmax(patched)
    assert not verdict.passed
    assert verdict.kind in ("rows", "mistake")


OVERWRITES_THE_RESULT = """
import os
for file in range(3, 4096):  # the number of the pipe depends on the files that the parent has open
    try:
        os.write(file, b"forged")
    except OSError:
        pass
"""
PATCHES_THE_PACKING = """
import sys
sys._getframe(1).f_locals["serialization"].pack = lambda value: b"forged"
"""


@pytest.mark.parametrize("forging", [OVERWRITES_THE_RESULT, PATCHES_THE_PACKING])
def test_a_forged_result_does_not_pass(forging: str) -> None:
    verdict = softmax(forging + "def softmax(x): return x")
    assert (verdict.passed, verdict.kind) == (False, "unreadable")


def test_the_environment_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    told = value_of(run("import os, sys\ndef f(x): return dict(os.environ), sys.flags.isolated, sys.stdin.read()"))
    assert "hush" not in str(told)
    assert "PYTHONPATH" not in told[0]
    assert told[1:] == (1, "")


def test_runs_wait_and_a_full_queue_raises() -> None:
    runner = Runner(max_parallel=1, max_waiting=1, limits=Limits(seconds=20))
    results: list[object] = []

    def go() -> None:
        try:
            results.append(value_of(run("import time\ndef f(x):\n    time.sleep(0.5); return x", runner)))
        except QueueFull as busy:
            results.append(busy)

    threads = [threading.Thread(target=go) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results.count(3) == 2
    assert sum(isinstance(result, QueueFull) for result in results) == 4
    assert value_of(run("def f(x): return x", runner)) == 3


def test_invalid_runner_settings_raise() -> None:
    with pytest.raises(ValueError, match="max_parallel must be at least 1"):
        Runner(max_parallel=0)


def test_a_child_that_cannot_start_raises() -> None:
    with pytest.raises(ChildProcessError, match=r"was not ready within 0\.001 s"):
        run("def f(x): return x", Runner(limits=Limits(start=0.001)))


def test_the_kernel_limits_threads() -> None:
    threads = """
import threading, time
def f(x):
    for count in range(1000):
        try: threading.Thread(target=time.sleep, args=(600,)).start()
        except RuntimeError: return count
"""
    allowed = value_of(run(threads))
    assert isinstance(allowed, int)
    assert allowed <= 64


def leftovers() -> list[str]:
    """Return child processes of finished runs, ours or orphaned; tests in other processes have their own."""
    listed = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=1) for line in listed.splitlines() if "learn.sandbox.child_program" in line]
    return [args for parent, args in rows if f"{sys.executable} -I" in args and int(parent) in (1, os.getpid())]


def ends(process_id: int) -> bool:
    """Return whether a process ends within 5 seconds; an orphan is a zombie until it is reaped."""
    for _ in range(500):
        if not alive(process_id):
            return True
        time.sleep(0.01)
    return False


def alive(process_id: int) -> bool:
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_a_child_that_ends_before_the_first_poll_is_accepted(tmp_path: Path) -> None:
    report, says = os.pipe()
    process = subprocess.Popen(["echo", "done"], stdout=subprocess.PIPE)
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        os.write(says, b'{"seccomp": ""}\nresult')
        output = _wait(process, report, Limits(), tmp_path)
        assert (output.failure, output.printed) == (None, "done\n")
        assert (output.states, output.result) == ({"seccomp": ""}, b"result")
        with pytest.raises(ChildProcessError, match="ended before it was ready"):
            _wait(process, report, Limits(), tmp_path)
    finally:
        process.communicate()
        os.close(report)
        os.close(says)
