"""Training in separate processes: killed, interrupted, on a full disk, distributed."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from regard.cli import main
from regard.training import load, read_metrics, resume, train
from regard.training.checkpoint import latest_checkpoint, load_checkpoint
from regard.training.run_config import RunConfig

QUICK = ["--tokenizer", "characters", "--d-model", "16", "--heads", "2", "--layers", "1", "--batch", "8"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


CHILD = """
import json, sys
from regard.training import resume, train
from regard.training.run_config import RunConfig
config, folder, new = RunConfig.from_json(json.loads(sys.argv[1])), sys.argv[2], sys.argv[3] == "new"
train(config, folder) if new else resume(folder)
"""


def child(config: RunConfig, folder: Path, code: str = CHILD) -> list[str]:
    """Return the command of a process that starts the run, or resumes it if it exists."""
    new = "resume" if (folder / "run.json").exists() else "new"
    return [sys.executable, "-c", code, json.dumps(config.to_json()), str(folder), new]


def losses(folder: Path) -> list[tuple[int, str, float]]:
    return [(row["step"], row["split"], row["loss"]) for row in read_metrics(folder / "metrics.jsonl")]


def newest(folder: Path) -> int:
    path = latest_checkpoint(folder / "checkpoints")
    return -1 if path is None else int(path.name)


def wait_for(process: subprocess.Popen[str], folder: Path, step: int) -> None:
    while process.poll() is None and newest(folder) < step:
        time.sleep(0.01)


def test_after_kill_9_the_run_resumes_from_the_last_checkpoint(tiny: Any, tmp_path: Path) -> None:
    config = tiny(steps=40, checkpoint_every=1, evaluate_every=10)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(config, whole)
    rng = random.Random(0)
    for _ in range(3):
        before = newest(parts)
        process = subprocess.Popen(child(config, parts), env=ENVIRONMENT, text=True)
        wait_for(process, parts, before + 5)
        time.sleep(rng.random() * 0.02)  # during a step, or while a checkpoint is written
        process.kill()
        assert process.wait() == -signal.SIGKILL, "the run finished before it could be killed"
        path = latest_checkpoint(parts / "checkpoints")
        assert path is not None
        assert load_checkpoint(path)[1]["step"] == newest(parts) >= before + 5
        if (parts / "model.json").exists():
            load(parts)
    resume(parts)
    assert losses(parts) == losses(whole)
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert not (parts / "checkpoints").exists()


def test_ctrl_c_saves_a_checkpoint_and_prints_how_to_resume(pairs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    arguments = [
        sys.executable,
        "-m",
        "regard",
        "train",
        "translate",
        "--data",
        str(pairs),
        *QUICK,
        "--steps",
        "100000",
    ]
    arguments += ["--checkpoint-every", "5", "--out", str(folder)]
    process = subprocess.Popen(arguments, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    wait_for(process, folder, 5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert f"a checkpoint is saved. Continue with: regard train --resume {folder}" in err
    assert "Traceback" not in err
    assert newest(folder) >= 5


FULL = """
import json, resource, sys
from regard.training import train
from regard.training.run_config import RunConfig

def report(row):
    if row["step"] == 10:  # from now on no file can exceed 8 kB, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

try:
    train(RunConfig.from_json(json.loads(sys.argv[1])), sys.argv[2], report=report)
except OSError as error:
    print(error)
"""


def test_a_full_disk_leaves_the_last_checkpoint_intact(tiny: Any, tmp_path: Path) -> None:
    config = tiny(steps=24, checkpoint_every=4, evaluate_every=1000)
    folder = tmp_path / "run"
    result = subprocess.run(child(config, folder, FULL), capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert "File too large; the checkpoint of step 8 is intact" in result.stdout, result
    assert f"free disk space, then resume the run with --resume {folder}" in result.stdout
    assert result.stderr == ""
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["00000008"]
    resume(folder)
    train(config, tmp_path / "whole")
    assert losses(folder) == losses(tmp_path / "whole")


def torchrun(*arguments: str) -> list[str]:
    """Return the command that starts regard in two processes, which are started again if one of them ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--nproc-per-node", "2", "--max-restarts", "2", "--master-addr", "127.0.0.1", "--master-port", str(port)]
    return [sys.executable, "-m", "torch.distributed.run", *options, "-m", "regard", *arguments]


def ranks_of(agent: int) -> list[int]:
    """Return the ids of the processes that torchrun has started."""
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    return [int(child) for child in children if b"regard" in Path(f"/proc/{child}/cmdline").read_bytes()]


LOOPBACK = {**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "lo"}


def test_two_processes_give_the_losses_of_one_even_if_one_is_killed(pairs: Path, tmp_path: Path) -> None:
    # On the command line: torchrun … -m regard train …
    options = ["--steps", "40", "--evaluate-every", "10", "--checkpoint-every", "5", "--dropout", "0", *QUICK]
    arguments = ["train", "translate", "--data", str(pairs), *options]
    assert main([*arguments, "--out", str(tmp_path / "one")]) == 0
    command = torchrun(*arguments, "--out", str(tmp_path / "two"))
    result = subprocess.run(command, capture_output=True, text=True, env=LOOPBACK, check=False)
    assert result.returncode == 0, result.stderr
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert [row[:2] for row in one] == [row[:2] for row in two]
    assert len(one) == 8
    for (_, _, a), (_, _, b) in zip(one, two, strict=True):
        assert a == pytest.approx(b, abs=1e-4)
    assert one[-1][2] < one[0][2]
    assert result.stdout.count("translations exactly right") == 1  # the second process prints nothing
    killed = tmp_path / "killed"
    process = subprocess.Popen(
        torchrun(*arguments, "--out", str(killed)), env=LOOPBACK, stderr=subprocess.DEVNULL, text=True
    )
    wait_for(process, killed, 5)
    os.kill(random.Random(0).choice(ranks_of(process.pid)), signal.SIGKILL)
    assert process.wait() == 0  # torchrun has started both again
    assert losses(killed) == two
    assert (killed / "model.safetensors").read_bytes() == (tmp_path / "two" / "model.safetensors").read_bytes()


def test_sigterm_saves_a_checkpoint_and_one_process_continues_the_run_of_two(pairs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = ["--steps", "100000", "--checkpoint-every", "100000", "--dropout", "0", *QUICK]
    command = torchrun("train", "translate", "--data", str(pairs), *options, "--out", str(folder))
    process = subprocess.Popen(command, env=LOOPBACK, stderr=subprocess.DEVNULL, text=True)
    while process.poll() is None and not (folder / "metrics.jsonl").exists():
        time.sleep(0.05)
    process.terminate()
    assert process.wait() != 0
    step = newest(folder)
    assert step > 0
    content = json.loads((folder / "run.json").read_text())
    content["plan"]["settings"]["steps"] = step + 3
    content.pop("checksum")
    (folder / "run.json").write_text(json.dumps(content))
    assert resume(folder).results["steps"] == step + 3
