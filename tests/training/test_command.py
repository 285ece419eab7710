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


def test_users_pairs_end_with_model_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, run = tmp_path / "own.tsv", tmp_path / "run"
    lines = [f"{'word ' * (n % 30 + 1)}🚀 {n}\t垫子 {n} 👩‍💻\tCC-BY\r\n" for n in range(60)]
    file.write_text("".join([*lines, "no tab\n", "x " * 9000 + "\ty\n", "x " * 600 + "\ty\n"]), encoding="utf-8")
    options = ["--d-model", "16", "--heads", "2", "--layers", "1", "--batch", "8", "--steps", "3"]
    assert main(["train", "translate", "--data", str(file), "--out", str(run), *options]) == 0
    err = capsys.readouterr().err
    assert f"regard train: {file}, line 61 skipped: no tab\n" in err
    assert "line 62 skipped: more than 4,000 characters on one side\n" in err
    assert "line 63 skipped: more than 256 tokens on one side" in err
    assert "lines 1, 2, 3, 4, 5 and 55 more: only the first two columns are used\n" in err
    assert {"model.safetensors", "curves.png", "alignment.png"} <= {path.name for path in run.iterdir()}


def test_resume_draws_the_missing_pictures_of_a_finished_run(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", "translate", "--data", str(pairs), "--out", str(run), *QUICK]) == 0
    content = (run / "alignment.png").read_bytes()
    (run / "alignment.png").unlink()
    pairs.unlink()  # the data are not needed
    capsys.readouterr()
    assert main(["train", "--resume", str(run)]) == 0
    assert capsys.readouterr().out == f"wrote {run / 'alignment.png'}\n"
    assert (run / "alignment.png").read_bytes() == content
    assert main(["train", "--resume", str(run)]) == 2
    assert "is finished" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "message"),
    [(OSError(28, "No space left on device"), "[Errno 28] No space"), (RuntimeError("a bug"), "RuntimeError: a bug")],
)
def test_a_picture_that_cannot_be_written_does_not_fail_the_training(
    error: Exception, message: str, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("regard.pictures.picture.write_atomic", fail)
    run = tmp_path / "run"
    assert main(["train", "translate", "--data", str(pairs), "--out", str(run), *QUICK]) == 0
    assert f"curves.png was not drawn: {message}" in capsys.readouterr().err
    assert main(["generate", str(run), "123"]) == 0


def test_a_masked_model_shows_its_candidates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, run = tmp_path / "a.txt", tmp_path / "run"
    file.write_text("The black cats sleep under every table in this old house.\n\n" * 40, encoding="utf-8")
    options = ["--d-model", "16", "--heads", "2", "--layers", "1", "--context", "32", "--steps", "3"]
    assert main(["train", "masked", "--data", str(file), "--out", str(run), *options]) == 0
    out = capsys.readouterr().out
    assert "unigram model" in out
    assert re.search(r"<mask>.*\(expected \w+\)\n    → \S+ \d+ %, ", out)
    assert main(["generate", str(run), "The black <mask> sleep"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"The black \S+ sleep", lines[0])
    assert len(lines) == 3


def test_a_language_model_samples_unless_greedy(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for options in ([], [], ["--seed", "1"], ["--greedy"], ["--temperature", "0"]):
        assert main(["generate", "language", "The while statement", "--new-tokens", "40", *options]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[3] == texts[4]
    assert len(set(texts)) == 3


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
