"""`bench/report.py` runs benchmarks, continues after Ctrl-C, and shows missed targets and errors on the page."""

import runpy
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[1] / "bench"

MET = '''"""Seconds of a quick thing: `python bench/quick.py`."""
print("quick │ 0.50 │ ≤ 1.00 met │")
'''
MISSED = '''"""A slow thing."""
print("slow │ 1.50 │ ≤ 1.00 Missed │")
print("python.py")
'''
BROKEN = '''"""A thing with a defect."""
print("before")
raise ValueError("expected a table, got none")
'''
INTERRUPTED = '''"""A thing during which the user presses Ctrl-C, the first time."""
import os, pathlib, signal, time
file = pathlib.Path(__file__).with_suffix(".started")
if not file.exists():
    file.touch()
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)
print("second time")
'''


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(BENCH)
    return runpy.run_path(str(BENCH / "report.py"))


def folder(tmp_path: Path, **benchmarks: str) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "bench").mkdir()
    for name, text in benchmarks.items():
        (tmp_path / f"bench/{name}.py").write_text(text, encoding="utf-8")
    return tmp_path / "bench"


def test_the_page_shows_targets_errors_and_what_was_not_run(report: dict[str, Any], tmp_path: Path) -> None:
    bench = folder(tmp_path, a_quick=MET, b_slow=MISSED, c_broken=BROKEN, d_left=MET)
    assert report["main"](["a_quick", "b_slow", "c_broken"], bench) == 1
    page = (tmp_path / "docs/benchmarks.md").read_text(encoding="utf-8")
    lines = page.splitlines()
    assert next(line for line in lines if "[a_quick]" in line).startswith(
        "| [a_quick](#a_quick) | Seconds of a quick thing | met | 2"
    )
    assert "| **missed** |" in next(line for line in lines if "[b_slow]" in line)
    assert "| **failed** |" in next(line for line in lines if "[c_broken]" in line)
    assert "| d_left | Seconds of a quick thing | not run: `python bench/d_left.py` | | |" in lines
    assert "slow │ 1.50 │ ≤ 1.00 Missed │" in lines
    assert "ValueError: expected a table, got none" in lines
    assert str(tmp_path) not in page


def test_what_was_measured_is_kept_after_ctrl_c(report: dict[str, Any], tmp_path: Path) -> None:
    bench = folder(tmp_path, a_quick=MET, b_interrupted=INTERRUPTED)
    assert report["main"]([], bench) == 130
    assert "not run: `python bench/b_interrupted.py`" in (tmp_path / "docs/benchmarks.md").read_text(encoding="utf-8")
    (bench / "a_quick.py").write_text(BROKEN)  # would fail if it ran again
    assert report["main"]([], bench) == 0
    page = (tmp_path / "docs/benchmarks.md").read_text(encoding="utf-8")
    assert "second time" in page
    assert "quick │ 0.50 │" in page
    assert report["main"](["a_quick", "--again"], bench) == 1


def test_an_unknown_benchmark_is_a_mistake(
    report: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        report["main"](["quik"], folder(tmp_path, quick=MET))
    assert stopped.value.code == 2
    assert "no benchmark quik; choose from quick" in capsys.readouterr().err
