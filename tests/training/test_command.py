"""The commands `regard train` and `regard generate`."""

import re
from pathlib import Path

import pytest

from regard.cli import main
from regard.training import read_metrics

QUICK = [
    "--tokenizer",
    "characters",
    "--d-model",
    "16",
    "--heads",
    "2",
    "--layers",
    "1",
    "--batch",
    "8",
    "--steps",
    "6",
]


def test_train_then_generate(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "translate", "--data", str(pairs), *QUICK]) == 0
    out, err = capsys.readouterr()
    run = tmp_path / "runs" / "translate-pairs"
    assert f"{run.relative_to(tmp_path)}: " in out
    assert "translations exactly right" in out
    assert len(re.findall("  →  ", out)) == 4
    assert "validation loss" in err
    names = {path.name for path in run.iterdir()}
    assert names == {
        "run.json", "tokenizer.json", "model.json", "model.safetensors", "metrics.jsonl", "curves.png", "alignment.png",
    }  # fmt: skip
    assert read_metrics(run / "metrics.jsonl")
    assert main(["generate", "translate-pairs", "123"]) == 0
    capsys.readouterr()
    # A second run of the same name gets the next number; nothing is overwritten.
    assert main(["train", "translate", "--data", str(pairs), *QUICK]) == 0
    assert (tmp_path / "runs" / "translate-pairs-2" / "run.json").exists()


def test_generate_with_shipped_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "phrases", "The cat sat on the mat"]) == 0
    assert capsys.readouterr().out == "猫坐在垫子上\n"
    assert main(["generate", "phrases", "The cat sat on the zebra"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("猫坐在")
    assert err == "regard generate: the training data did not contain zebra; the model guesses there\n"
    assert main(["generate", "language", "The while statement", "--new-tokens", "8"]) == 0
    assert capsys.readouterr().out.startswith("The while statement")


def test_generate_draws_the_alignment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "alignment.svg"
    assert main(["generate", "phrases", "The cat sat on the mat", "--picture", str(file)]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("猫坐在垫子上\n", f"wrote {file}\n")
    assert "<svg" in file.read_text(encoding="utf-8")


MISTAKES = [
    (["train"], "give either a task"),
    (["train", "translat"], "did you mean translate?"),
    (["train", "translate", "--data", "phrase"], "did you mean phrases?"),
    (["train", "translate", "--data", "/no/such/file.tsv"], "No such file"),
    (["train", "translate", "--model", "gru"], "no model 'gru'"),
    (["train", "translate", "--steps", "0"], "steps must be at least 1"),
    (["train", "translate", "--heads", "3"], "heads must divide"),
    (["train", "translate", "--model", "lstm", "--heads", "2"], "the model lstm has no heads"),
    (["train", "language", "--data", "/no/such/file.txt"], "No such file"),
    (["train", "--resume", "nowhere"], "no run 'nowhere'"),
    (["train", "--resume", "phrases"], "is finished"),
    (["train", "--resume", "phrases", "--steps", "9"], "leave out --steps"),
    (["generate", "phrase", "x"], "did you mean phrases?"),
    (["generate", "phrases", ""], "the text is empty"),
    (["generate", "phrases", "cat " * 100], "at most"),
    (["generate", "language", "while " * 500], "at most"),
    (["generate", "language", "while", "--temperature", "-1"], "temperature"),
    (["generate", "phrases", "The cat", "--beams", "0"], "beams"),
    (["generate", "phrases"], "text"),
    (["generate", "language", "while", "--picture", "x.png"], "has no cross-attention"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=lambda value: " ".join(value)[:50])
def test_user_errors_are_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("regard")
    assert err.count("\n") == 1
    assert message.lower() in err.lower()
    assert not (tmp_path / "runs").exists()
