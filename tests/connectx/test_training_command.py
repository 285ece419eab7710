"""The commands `regard connectx label`, `train` and `compare`."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.cli import main
from regard.connectx import LabelOptions, label, read_labels
from regard.connectx.training import compare as comparing
from regard.training import read_metrics

TINY = ["--preset", "tiny", "--channels", "16", "--layers", "2", "--attn-every", "2", "--batch", "32", "--threads", "1"]


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("labels")
    label(path, LabelOptions(fewest=28, early=0.0, middle=0.0, seed=4), positions=4000)
    return str(path)


def test_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["connectx", "label", str(tmp_path), "--size", "4x5x3", "--fewest", "3", "--processes", "1"]
    assert main([*command, "--positions", "100"]) == 0
    assert "positions labelled" in capsys.readouterr().err
    assert len(read_labels(tmp_path)) > 20
    assert main([*command]) == 2
    assert "either the number of positions or the minutes" in capsys.readouterr().err
    assert main([*command, "--openings", "2"]) == 0
    assert "positions labelled" in capsys.readouterr().err
    assert (read_labels(tmp_path).stones == 0).sum() == 1
    assert main([*command, "--openings", "2", "--minutes", "1"]) == 2
    assert "leave out --positions, --minutes and --network" in capsys.readouterr().err
    assert main([*command, "--positions", "100", "--most", "5", "--middle", "0.5"]) == 2
    assert "--most cannot be combined with --middle" in capsys.readouterr().err


def test_ctrl_c_keeps_the_labels_made_so_far(tmp_path: Path) -> None:
    folder = tmp_path / "labels"
    child = subprocess.Popen(
        [sys.executable, "-m", "regard", "connectx", "label", str(folder), "--minutes", "60", "--size", "4x5x3",
         "--fewest", "3", "--processes", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while child.poll() is None and not (folder / "labels.json").exists():
        time.sleep(0.05)
    time.sleep(4)
    os.kill(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert "the same command continues" in err
    assert "Traceback" not in err
    assert not list(folder.glob(".*"))


def test_train_distill(labels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    command = ["connectx", "train", "--method", "distill", "--labels", labels, "--out", str(run), *TINY]
    assert main([*command, "--steps", "20", "--evaluate-every", "10", "--checkpoint-every", "10"]) == 0
    out, err = capsys.readouterr()
    assert "averaged with its mirror image: error" in out
    assert "step      10" in err
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (run / "model.safetensors").stat().st_size < 8_000_000
    assert {row["split"] for row in read_metrics(run / "metrics.jsonl")} == {"train", "grade"}
    assert main(["connectx", "train", "--resume", str(run), "--steps", "5"]) == 2
    assert "leave out --steps" in capsys.readouterr().err
    assert main(["connectx", "train", "--resume", str(run)]) == 2
    assert "is finished" in capsys.readouterr().err
    assert main(["connectx", "train", "--method", "distill"]) == 2
    assert "--out RUN" in capsys.readouterr().err
    start = [
        "connectx",
        "train",
        "--method",
        "distill",
        "--labels",
        labels,
        "--start",
        str(run),
        "--out",
        str(tmp_path / "b"),
    ]
    assert main([*start, "--channels", "64", "--sees", "all"]) == 2
    assert "determines channels, sees; only layers can be given" in capsys.readouterr().err


def test_train_ppo_prints_every_metric(labels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["connectx", "train", "--method", "ppo", "--labels", labels, "--out", str(tmp_path / "run"), *TINY]
    fewer = ["--set", "games=16", "--set", "moves=8"]
    assert main([*command, "--steps", "2", "--evaluate-every", "2", *fewer]) == 0
    err = capsys.readouterr().err
    for name in ("loss", "policy_loss", "value_loss", "entropy", "kl", "clip_share", "explained_variance"):
        assert f" {name} " in err
    assert "games_per_second" in err
    assert "won against random" in err
    assert main([*command, "--set", "gems=1"]) == 2
    assert "ppo has no option 'gems'; its options are games, moves" in capsys.readouterr().err


def test_compare(labels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = "tiny,channels=16,layers=2,attn_every=2"
    without = "tiny,channels=16,layers=2,attn_every=none"
    command = ["connectx", "compare", small, without, "--labels", labels, "--out", str(tmp_path)]
    options = ["--budget", "1k", "--seeds", "2", "--games", "4"]
    assert main([*command, *options]) == 0
    assert f"{small} scores" in capsys.readouterr().out
    comparison = json.loads((tmp_path / "comparison.json").read_text())
    assert comparison["games"]["won"] + comparison["games"]["drawn"] + comparison["games"]["lost"] == 8
    assert [len(rows) for rows in comparison["grades"].values()] == [2, 2]
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert main([*command, *options]) == 0  # the runs exist; only the games are played again
    assert json.loads((tmp_path / "comparison.json").read_text()) == comparison


@pytest.mark.parametrize(
    ("a", "budget", "complaint"),
    [
        ("huge", "1k", "a preset is one of"),
        ("tiny,heads", "1k", "a preset followed by name=value"),
        ("tiny", "soon", "the budget must be a time"),
        ("small", "1k", "two different configurations"),
        ("tiny", "1k", "distillation needs labels"),
    ],
)
def test_wrong_comparisons(
    a: str, budget: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["connectx", "compare", a, "small", "--budget", budget, "--out", str(tmp_path / "runs")]) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_budget_of_time_is_cpu_time() -> None:
    settings = comparing._settings("zero", comparing.Budget.parse("90s"), {})
    assert (settings.minutes, settings.clock) == (1.5, "cpu")


def test_a_budget_of_positions_gives_equal_positions() -> None:
    settings = [comparing._settings("distill", comparing.Budget(positions=10_000), {"batch": n}) for n in (100, 500)]
    assert [one.steps * one.batch for one in settings if one.steps] == [10_000, 10_000]


@pytest.mark.parametrize("method", [["distill"], ["ppo", "--set", "games=8", "--set", "moves=4", "--set", "epochs=1"]])
def test_two_processes(method: list[str], labels: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
    started += ["--master-port", str(port), "-m", "regard", "connectx", "train", "--method", *method]
    started += ["--labels", labels, "--out", str(tmp_path / "run"), *TINY, "--steps", "6", "--evaluate-every", "3"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    result = subprocess.run(started, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    assert "Warning" not in result.stderr
    assert result.stdout.count("mirror image") == 1  # the second process prints nothing
    rows = [row for row in read_metrics(tmp_path / "run" / "metrics.jsonl") if row["split"] == "grade"]
    assert [row["positions"] for row in rows] == [3 * 32, 6 * 32]
