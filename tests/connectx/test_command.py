"""The command `regard connectx`."""

import json
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest

from regard.cli import main

ARENA = ["connectx", "arena", "random", "greedy", "--games", "4", "--openings", "random", "--processes", "1"]


def test_an_arena(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {ending: str(tmp_path / f"arena.{ending}") for ending in ("jsonl", "json", "png")}
    options = ["--out", files["jsonl"], "--json", files["json"], "--picture", files["png"], "--stop", "50"]
    assert main([*ARENA, *options]) == 0
    said = capsys.readouterr()
    assert "Arena on 6×7×4, openings: random" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    assert f"wrote {files['png']}" in said.err
    found = json.loads(Path(files["json"]).read_text())
    assert [one["name"] for one in found["players"]] == ["random", "greedy"]
    assert found["pairings"][0]["losses"] + found["pairings"][0]["wins"] + found["pairings"][0]["draws"] == 4
    assert Path(files["png"]).read_bytes().startswith(b"\x89PNG")
    assert len(Path(files["jsonl"]).read_text().splitlines()) == 5
    assert main([*ARENA, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["games"] == 4


def test_games_are_kept_after_ctrl_c(tmp_path: Path) -> None:
    file = tmp_path / "games.jsonl"
    command = ["connectx", "arena", "random", "greedy", "--games", "100000", "--openings", "random", "--out", str(file)]
    child = subprocess.Popen(
        [sys.executable, "-m", "regard", *command, "--plies", "9", "--processes", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while child.poll() is None and not (file.exists() and len(file.read_bytes().splitlines()) > 20):
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert "the same command continues from" in err
    assert "Traceback" not in err
    assert "Arena on" in out


def test_a_game(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("\n".join(["4", "q"])))
    assert main(["connectx", "play", "greedy", "--size", "4x5x3"]) == 0
    assert "You quit after 43." in capsys.readouterr().out


def test_quality(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("L3_R1", "L2_R1", "L2_R2", "L1_R1", "L1_R2", "L1_R3"):
        (tmp_path / f"{name}.txt").write_text("112233 18 -3 -3 -3 18 -3 -3 1\n4 0 0 1 1 1 1 1 -1\n")
    assert main(["connectx", "quality", "greedy", "random", "--sets", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    assert ["greedy", "error", *["0.0"] * 6] in rows
    assert ["perfect", *["100.0"] * 6] in rows
    assert ["random", "error", *["50.0"] * 6] in rows
    assert main(["connectx", "quality", "random", "--sets", str(tmp_path), "--first", "1", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["random"]["L1_R3"]["perfect"] == pytest.approx(1 / 7)


def test_an_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "submission.py"
    assert main(["connectx", "export", "mcts:100", "--out", str(file)]) == 0
    assert f"check it with: regard connectx validate {file}" in capsys.readouterr().out
    compile(file.read_text(), "submission.py", "exec")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["arena", "random"], "regard connectx arena: an arena needs two or more different players"),
        (["arena", "random", "gredy"], "did you mean 'greedy'?"),
        (["arena", "random", "greedy", "--games", "3"], "games must be even"),
        (["arena", "random", "greedy", "--openings", "fair"], "openings must be balanced, random, none or a file"),
        (["arena", "random", "greedy", "--size", "6x7"], "--size must be rows, columns"),
        (["arena", "random", "greedy", "--out", "/no/such/folder/x"], "No such file"),
        (["play", "nobody"], "no player is called 'nobody'"),
        (["play", "--moves", "1212121"], "is over; give fewer moves"),
        (["play", "--moves", "1218"], "there are only columns 1 to 7"),
        (["export", "minimax:5", "--out", "x.zip"], "must end in .py or .tar.gz"),
        (["validate", "nothing.py"], "the submission 'nothing.py' does not exist"),
        (["quality", "random", "--sets", "/nowhere"], "must contain the six standard sets"),
        (["solv"], "No such command 'solv'"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connectx", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("regard connectx")
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_help_loads_nothing_heavy() -> None:
    for code in ("from regard.cli import main; main(['connectx', 'arena', '--help'])", "import regard.connectx"):
        code += "\nimport sys; assert not {'torch', 'numba', 'numpy', 'matplotlib'} & set(sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_boards_do_not_import_torch() -> None:
    code = "import regard; regard.connectx.player('minimax:2').choose(regard.connectx.Board())\n"
    code += "import sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_compilation_is_announced_once_and_cached(tmp_path: Path) -> None:
    code = "from regard.connectx import Boards; b = Boards(3); b.step(b.random_columns()); b.planes(); b.legal()"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment).stderr
        for _ in range(2)
    )
    assert first == "regard: compiling the board game for this machine (some seconds, only once) …\n"
    assert second == ""
