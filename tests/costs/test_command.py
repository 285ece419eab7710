"""The `regard cost` command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import main

SMALL = ["cost", "--d-model", "64", "--heads", "4", "--seq", "32,64"]


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--mask", "window(keys=8)", "--backward", "--kv-heads", "2"]) == 0
    output = capsys.readouterr().out
    for words in ("S = 64", "scores", "visible pairs", "window(keys=8)", "backward", "peak of the call", "H_kv = 2"):
        assert words in output
    assert max(map(len, output.splitlines())) <= 80


def test_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--measure", "--materialised"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("exact") == 2
    assert captured.err == ""


def test_json_and_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--json", "-", "--cached", "--batch", "3"]) == 0
    assert [one["seq"] for one in json.loads(capsys.readouterr().out)["estimates"]] == [32, 64]
    picture, numbers = tmp_path / "cost.png", tmp_path / "cost.json"
    assert main([*SMALL, "--plot", str(picture), "--json", str(numbers), "--measure"]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(numbers.read_text())["measured"][0]["operations_ratio"] == 1
    assert f"wrote {picture}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--heads", "7"], "got 7 heads for 512 channels"),
        (["--seq", "512,many"], "--seq expects whole numbers"),
        (["--seq", "0"], "seq must be at least 1, got 0"),
        (["--mask", "sideways"], "cannot read 'sideways'"),
        (["--dtype", "int8"], "dtype must be one of"),
        (["--plot", "cost.jpeg"], ".png, .svg or .pdf"),
        (["--json", "/no/such/folder/cost.json"], "No such file"),
        (["--batch", "-1"], "batch must be at least 1"),
        (["--cached", "--backward"], "no backward"),
    ],
)
def test_user_errors_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("regard cost: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_help_and_import_load_nothing_heavy() -> None:
    for code in ("from regard.cli import main; main(['cost', '--help'])", "import regard.costs"):
        code += "\nimport sys; assert not {'torch', 'matplotlib', 'numpy'} & set(sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_profiler_prints_nothing() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "regard", *SMALL, "--measure"], capture_output=True, text=True, check=True
    )
    assert result.stderr == ""
