"""The command `regard claims`, the shipped results, and the page made from them."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.claims import NAMES, SHIPPED, claim_named, claim_text, find, read, write_report
from regard.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "claims.md"


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("LANG", "en_GB.UTF-8")
    for name in ("LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)


def test_list_of_claims(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims"]) == 0
    output = capsys.readouterr().out
    assert all(name in output for name in NAMES)
    assert main(["claims", "--out", "nowhere", "--lang", "zh"]) == 0
    assert re.sub(r"\s", "", capsys.readouterr().out).count("未运行") == len(NAMES)


def test_run_then_show_then_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "run", "stable-softmax", "errata", "--tiny", "--seeds", "1"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("stable-softmax: ")
    assert "errata: does not hold here" in output
    assert find("errata") == read(tmp_path / "claims" / "errata.json")  # preferred to the shipped one
    assert main(["claims", "show", "errata", "--picture", "errata.png"]) == 0
    shown = capsys.readouterr().out
    for expected in (
        "experiment:",
        "rule:",
        "verdict: does not hold here",
        "measured on:",
        "regard claims run errata --tiny",
    ):
        assert expected in shown
    assert (tmp_path / "errata.png").read_bytes().startswith(b"\x89PNG")
    assert main(["claims", "show", "errata", "--lang", "zh"]) == 0
    assert "结论: 此处不成立" in capsys.readouterr().out
    assert main(["claims", "show", "errata", "--rows"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == find("errata").rows  # type: ignore[union-attr]
    assert main(["claims", "report", "page.md", "--out", "claims"]) == 0
    page = (tmp_path / "page.md").read_text()
    assert page.count("\n## ") == len(NAMES)
    assert page.count("Verdict: undecided: not run") == len(NAMES) - 2
    assert page.count("| **undecided: not run** |") == len(NAMES) - 2
    assert sorted(path.name for path in (tmp_path / "page").iterdir()) == ["errata.svg", "stable-softmax.svg"]


def test_summary_of_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "report", "--pdf"]) == 0
    content = (tmp_path / "claims.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert content.count(b"/Type /Page ") + content.count(b"/Type /Page\n") == 1
    assert main(["claims", "report", "one.svg", "--pdf"]) == 0
    assert all(claim_named(name).title["en"] in (tmp_path / "one.svg").read_text() for name in NAMES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "name the claims to run, or give --all"),
        (["run", "scale", "--all"], "name the claims to run, or give --all"),
        (["run", "scaling"], "there is no claim 'scaling'"),
        (["run", "scale", "--full", "--tiny"], "give either --full or --tiny, got both"),
        (["show", "scale", "--rows", "--out", "nowhere"], "there is no result of scale"),
        (["show", "softmaxx"], "there is no claim"),
        (["show", "scale", "--out", "nowhere", "--picture", "x.png"], "no complete result of scale"),
        (["--lang", "fr"], "--lang must be en or zh"),
    ],
)
def test_user_errors_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", *arguments]) == 2
    output = capsys.readouterr().err
    assert message in output
    assert output.count("\n") == 1


def test_interrupted_run_keeps_finished_parts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "regard", "claims", "run", "stable-softmax", "--full", "--seeds", "1000"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        file = tmp_path / "claims" / "stable-softmax.json"
        while not (file.exists() and read(file).parts):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        errors = process.communicate()[1]
    assert process.returncode == 130, errors
    assert "the same command resumes the run" in errors
    stored = read(file)
    assert 0 < len(stored.parts) < stored.expected_parts
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert "unfinished" in claim_text(claim_named("stable-softmax"), file.parent)


def test_shipped_results_are_complete_and_current() -> None:
    for file in SHIPPED.glob("*.json"):
        result = read(file)
        assert result.claim == file.stem
        assert result.claim in NAMES
        assert result.complete
        assert result.size != "tiny"
        assert file.stat().st_size < 200_000
        settings = {
            name: value for name, value in claim_named(result.claim).sizes[result.size].items() if name != "seeds"
        }
        assert json.loads(json.dumps(settings)) == result.settings, "the settings have changed: run the claim again"


def test_page_is_up_to_date(tmp_path: Path) -> None:
    write_report(tmp_path / "claims.md")
    assert (tmp_path / "claims.md").read_text() == PAGE.read_text(), "run: regard claims report"
    plots = {path.name for path in (tmp_path / "claims").iterdir()}
    assert plots == {path.name for path in PAGE.with_suffix("").glob("*.svg")}
