"""The command as it is typed: what it prints, and what it says of mistakes."""

import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import regard
from regard.attention import Trace
from regard.attention.reference import numpy_attention as reference
from regard.cli import main

CAT = "The cat sat on the mat"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "regard", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80", **environment},
        check=False,
    )


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        assert main(arguments) == 0
        assert "trace" in capsys.readouterr().out
    assert main(["trace", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(option in said for option in ("--heads", "--mask", "--no-scale", "--json", "--seed"))


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"regard {regard.__version__}\n"


def test_trace_prints_every_step_in_a_pipe_without_colour() -> None:
    result = run("trace", CAT)
    assert result.returncode == 0
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    for name in ("project", "split", "scores", "scale", "mask", "maximum", "exponentials", "sum", "weights"):
        assert f"  {name}  " in result.stdout
    assert "seed 0" in result.stdout


def test_colour_is_asked_for_and_refused() -> None:
    colour = {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "NO_COLOR": ""}
    assert "48;2;" in run("trace", CAT, **colour).stdout  # the shades of the weights
    refused = run("trace", CAT, **colour | {"NO_COLOR": "1"}).stdout
    assert not {"[3", "[4", "8;2;"} & {code[:2] for code in refused.split("\x1b")[1:]}
    assert "48;2;" not in refused


def test_the_same_command_prints_the_same_numbers() -> None:
    # PYTHONHASHSEED would show if the vectors came from Python's own hash().
    first, second = (run("trace", CAT, "--json", "-", PYTHONHASHSEED=seed).stdout for seed in ("1", "2"))
    assert first == second


def test_json_to_standard_output_and_to_a_file(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", CAT, "--heads", "4", "--json", "-"]) == 0
    printed = capsys.readouterr().out
    trace = Trace.from_json(printed)
    assert trace.heads == 4
    assert trace.tokens == tuple(CAT.split())
    file = tmp_path / "trace.json"
    assert main(["trace", CAT, "--heads", "4", "--json", str(file)]) == 0
    assert file.read_text(encoding="utf-8") == printed
    assert json.loads(printed)["version"] == 1


def test_options_reach_the_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    def traced(*options: str) -> Trace:
        assert main(["trace", CAT, *options, "--json", "-"]) == 0
        return Trace.from_json(capsys.readouterr().out)

    assert traced("--no-scale").scale == 1.0
    assert traced("--d-model", "12", "--heads", "3")["split"].shape[0] == (3, 6, 4)
    assert (traced("--seed", "1").output != traced().output).all()
    crossed = traced("--context", "猫坐在垫子上啊")
    assert crossed.weights.shape == (2, 6, 7)
    assert crossed.key_tokens == tuple("猫坐在垫子上啊")


def test_masks_are_read_as_rules(capsys: pytest.CaptureFixture[str]) -> None:
    windowed = np.tri(6, dtype=bool) & ~np.tri(6, k=-2, dtype=bool)
    for text, seen in {
        "causal": np.tri(6, dtype=bool),
        "window:2": windowed,
        "causal & window(keys=2)": windowed,
        "none": None,
    }.items():
        assert main(["trace", CAT, "--mask", text, "--json", "-"]) == 0
        trace = Trace.from_json(capsys.readouterr().out)
        if seen is None:
            assert trace.visible is None
        else:
            np.testing.assert_array_equal(trace.visible, seen)
            np.testing.assert_allclose(trace.weights, reference.softmax(trace["mask"].values))
    assert main(["trace", CAT, "--mask", "sideways"]) == 2
    assert capsys.readouterr().err.startswith("regard trace: ")


def test_steps_and_heads_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", CAT, "--step", "weights", "--head", "1"]) == 0
    said = capsys.readouterr().out
    assert "head 1" in said
    assert "project" not in said


MISTAKES = [
    (["trace", ""], "the text must contain at least one word"),
    (["trace", "   "], "the text must contain at least one word"),
    (["trace", CAT, "--context", ""], "--context must contain at least one word"),
    (["trace", CAT, "--heads", "3"], "got 3 heads for 8 channels; the nearest counts that do are 2"),
    (["trace", CAT, "--heads", "0"], "heads must be at least 1, got 0"),
    (["trace", CAT, "--heads", "two"], "--heads"),
    (["trace", CAT, "--d-model", "-8"], "d_model must be at least 1, got -8"),
    (["trace", CAT, "--head", "2"], "head must be from 0 to 1, got 2"),
    (["trace", CAT, "--seed", "-1"], "--seed"),
    (["trace", CAT, "--step", "softmax"], "no step 'softmax' in this trace; it has project, split"),
    (["trace", CAT, "--json", "/no/such/folder/trace.json"], "No such file or directory"),
    (["trace"], "text"),
    (["trace", CAT, "--masks", "causal"], "--masks"),
    (["tracé"], "No such command"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=lambda value: " ".join(value)[-40:])
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("regard")
    assert captured.err.count("\n") == 1
    assert message.lower() in captured.err.lower()


def test_no_traceback_reaches_the_shell() -> None:
    result = run("trace", CAT, "--heads", "3")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_terminal_that_cannot_show_the_characters_still_gets_the_numbers() -> None:
    result = run("trace", CAT, "--step", "weights", PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert "0.102" in result.stdout


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = f"{sys.executable} -m regard trace '{CAT}' --rows 1000 | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr


def test_ctrl_c_is_no_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module("regard.cli.cost"), "parse_lengths", interrupted)
    assert main(["cost"]) == 130
    assert capsys.readouterr().err.strip() == ""


def test_a_defect_shows_its_traceback_and_where_to_report_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for defect in (lambda _: {}["missing"], lambda _: len(3), lambda _: int("x")):
        monkeypatch.setattr(importlib.import_module("regard.cli.cost"), "parse_lengths", defect)
        assert main(["cost"]) == 1
        message = capsys.readouterr().err
        assert "Traceback" in message
        assert "defect in regard" in message
        assert "CONTRIBUTING.md" in message


@pytest.mark.usefixtures("unchecked")
def test_debug_shows_the_traceback_of_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--debug", "trace", CAT, "--heads", "3"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[-1].startswith("regard trace: ")
    assert main(["trace", CAT, "--heads", "3"]) == 2
    assert "Traceback" not in capsys.readouterr().err
