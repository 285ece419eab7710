"""Tests of `regard learn` for exercises, and of the progress file it writes."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import main
from regard.learn import Progress, exercises, find_exercise, grade
from regard.learn.progress import COURSE_SECTIONS

SOFTMAX = find_exercise("softmax")
RIGHT = SOFTMAX.correct["logarithm"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty data folder and working folder, English, and 100 columns."""
    monkeypatch.setenv("REGARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LC_ALL", "en_GB.UTF-8")
    monkeypatch.setenv("COLUMNS", "100")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return tmp_path / "home"


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["learn", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code != 2 else captured.err


def test_exercise_from_start_to_solution(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert f"0 of {len(exercises())} exercises passed" in said(capsys, "status")
    assert "Softmax that never overflows" in said(capsys, "next")
    file = Path("01-softmax.py")
    assert file.read_text() == SOFTMAX.starter
    assert "Not written yet" in said(capsys, "run", str(file), code=1)

    file.write_text(SOFTMAX.mistakes[1].source)
    told = said(capsys, "run", str(file), code=1)
    assert "Softmax over the wrong axis" in told
    assert all(word in told for word in ("expected", "yours", "case", "--seed"))
    assert "0.5 " not in said(capsys, "hint")
    assert "not passed yet" in said(capsys, "solution", "softmax", code=2)

    file.write_text(RIGHT)
    assert "✓ 01-softmax" in said(capsys, "run", str(file))
    told = said(capsys, "solution", "1")
    assert "def softmax(x):" in told
    assert "--force" not in told
    record = json.loads((home / "learn.json").read_text())["exercises"]["01-softmax"]
    assert (record["attempts"], record["hints"], record["last"]) == (3, 1, None)
    assert record["passed"]
    assert record["file"] == str(file.resolve())
    assert "Attention for one query" in said(capsys, "next")


def test_next_does_not_overwrite_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    Path("01-softmax.py").write_text("mine")
    assert "was not changed" in said(capsys, "next")
    assert Path("01-softmax.py").read_text() == "mine"
    said(capsys, "next", "--overwrite")
    assert Path("01-softmax.py").read_text() == SOFTMAX.starter
    Path("there").mkdir()
    said(capsys, "next", "masks", "--folder", "there")
    assert Path("there/05-masks.py").exists()
    assert "--folder must be a folder" in said(capsys, "next", "--folder", "nowhere", code=2)


def test_hint_shows_one_more_each_time_and_repeats_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    shown = [said(capsys, "hint", "softmax") for _ in range(5)]
    assert [text.splitlines()[0] for text in shown] == [f"01-softmax · hint {which} of 3" for which in (1, 2, 3, 3, 3)]
    assert Progress.load().exercise_record(SOFTMAX).hints == 3


def test_solution_with_force_shows_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert "shown because of --force" in said(capsys, "solution", "softmax", "--force")
    assert "np.logaddexp" in said(capsys, "solution", "softmax", "--force", "--way", "logarithm")
    assert "there are einops_reduce, logarithm, loops" in said(
        capsys, "solution", "softmax", "--force", "--way", "x", code=2
    )
    assert not Progress.load().exercise_record(SOFTMAX).passed


def test_language_is_set_by_option_or_locale(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "永不溢出的 softmax" in said(capsys, "status", "--lang", "zh")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "已通过 0 道" in said(capsys, "status")
    assert "Softmax that never overflows" in said(capsys, "status", "--lang", "en")
    Path("1.py").write_text(SOFTMAX.mistakes[0].source)
    assert "没有减去最大值" in said(capsys, "run", "1.py", code=1)
    assert "--lang must be en or zh" in said(capsys, "status", "--lang", "fr", code=2)


def test_reset_deletes_one_or_all_exercises_and_requires_a_choice(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = grade(SOFTMAX, RIGHT)
    for exercise in exercises()[:2]:
        Progress.load().record_attempt(exercise, verdict)

    def passed() -> list[bool]:
        return [Progress.load().exercise_record(exercise).passed is not None for exercise in exercises()[:2]]

    assert "name what to delete" in said(capsys, "reset", code=2)
    assert passed() == [True, True]
    assert "01-softmax" in said(capsys, "reset", "softmax")
    assert passed() == [False, True]
    assert "all exercises" in said(capsys, "reset", "--exercises", "--yes")
    assert Progress.load().exercises == {}


def test_reset_of_a_section_asks_for_confirmation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Progress.load()
    for part in COURSE_SECTIONS:
        getattr(state, part)["x"] = {"passed": True, "done": True}
    state.settings["language"] = "zh"
    state.save()

    def left() -> list[str]:
        return [part for part in COURSE_SECTIONS if getattr(Progress.load(), part)]

    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    said(capsys, "reset", "--cards", code=1)
    assert left() == list(COURSE_SECTIONS)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert "Deleted the progress of: all drills, all cards" in said(capsys, "reset", "--cards", "--drills")
    assert left() == ["exercises", "flow", "path"]
    assert "name what to delete" in said(capsys, "reset", "softmax", "--cards", code=2)
    assert "全部练习、全部手算题、全部卡片、全部流程图、学习路径" in said(
        capsys, "reset", "--all", "--yes", "--lang", "zh"
    )
    assert left() == []
    assert Progress.load().settings == {"language": "zh"}


def test_export_writes_all_progress(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "hint", "softmax")
    state = json.loads(said(capsys, "export"))
    assert state["exercises"]["01-softmax"]["hints"] == 1
    said(capsys, "export", "mine.json")
    assert json.loads(Path("mine.json").read_text()) == state


def test_run_prints_json_and_repeats_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("answer.py").write_text(SOFTMAX.mistakes[0].source)
    arguments = ("run", "answer.py", "--exercise", "softmax", "--seed", "7", "--json")
    first, second = (json.loads(said(capsys, *arguments, code=1)) for _ in range(2))
    assert first["mistake"] == "unstable"
    assert first["failing"] == second["failing"]
    assert first["seed"] == 7


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "01-softmax.py"], "No such file"),
        (["run", "answer.py"], "not named after an exercise"),
        (["run", "answer.py", "--exercise", "sofmax"], "no exercise is called 'sofmax'"),
        (["run", "latin.py", "--exercise", "1"], "must be text in UTF-8"),
        (["hint", "99"], "no exercise is called '99'; the exercises are 01-softmax"),
        (["watch", "01-softmax.py"], "No such file"),
        (["dance"], "No such command"),
    ],
)
def test_a_user_error_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str) -> None:
    Path("answer.py").write_text("x = 1")
    Path("latin.py").write_bytes(b"# caf\xe9")
    assert main(["learn", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert complaint.lower() in captured.err.lower()


def test_an_unreadable_file_is_renamed_and_a_newer_one_is_not_changed(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    home.mkdir()
    for number, damaged in enumerate(("{", "[]"), 1):
        (home / "learn.json").write_text(damaged)
        assert main(["learn", "hint"]) == 0
        assert f"renamed to learn.unreadable-{number}.json" in capsys.readouterr().err
        assert (home / f"learn.unreadable-{number}.json").read_text() == damaged
    (home / "learn.json").write_text('{"version": 99}')
    assert "newer regard" in said(capsys, "hint", code=2)
    assert (home / "learn.json").read_text() == '{"version": 99}'


def test_entries_of_other_sections_are_kept(home: Path) -> None:
    home.mkdir()
    (home / "learn.json").write_text('{"version": 1, "cards": {"softmax": {"due": "2030-01-01"}}}')
    Progress.load().record_hint(SOFTMAX)
    assert Progress.load().cards == {"softmax": {"due": "2030-01-01"}}


def test_a_passed_exercise_stays_passed() -> None:
    progress = Progress.load()
    progress.record_attempt(SOFTMAX, grade(SOFTMAX, RIGHT))
    progress.record_attempt(SOFTMAX, grade(SOFTMAX, SOFTMAX.starter))
    assert progress.exercise_record(SOFTMAX).passed
    assert progress.exercise_record(SOFTMAX).last == "unwritten"


def test_watch_grades_every_save_until_it_passes(home: Path) -> None:
    file = Path("01-softmax.py")
    file.write_text(SOFTMAX.starter)
    with watching(file) as process:
        assert "Not written yet" in lines_until(process, "Not written yet")
        half = file.with_suffix(".tmp")
        half.write_text(RIGHT)
        half.replace(file)  # as editors do
        assert "✓ 01-softmax" in lines_until(process, "✓")
        assert process.wait(timeout=60) == 0
    assert json.loads((home / "learn.json").read_text())["exercises"]["01-softmax"]["attempts"] == 2


def test_ctrl_c_stops_watch_without_a_traceback() -> None:
    file = Path("01-softmax.py")
    file.write_text(SOFTMAX.starter)
    with watching(file) as process:
        lines_until(process, "--seed")
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Stopped." in rest
    assert errors == ""


def test_help_and_status_do_not_load_numpy() -> None:
    for arguments in (["learn", "--help"], ["learn", "status"], ["learn", "hint"]):
        code = f"import sys; from regard.cli import main; main({arguments}); print(*sys.modules, file=sys.stderr)"
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()
        assert not {"numpy", "torch"} & set(loaded), arguments


def watching(file: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "regard", "learn", "watch", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )


def lines_until(process: subprocess.Popen[str], mark: str) -> str:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if mark in line:
            return said
    raise AssertionError(f"ended before {mark!r}: {said}{process.stderr.read() if process.stderr else ''}")
