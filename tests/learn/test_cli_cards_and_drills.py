"""Tests of `regard learn cards`, `interview`, `drill`, `diagram` and `checklist`."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.cli import main
from regard.cli.learn.prompts import wrap
from regard.learn import DIAGRAMS, all_cards, drill
from regard.learn.drills.matrices import format_answer


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_HOME", str(tmp_path))
    monkeypatch.setenv("LANG", "en_GB.UTF-8")
    monkeypatch.delenv("LC_ALL", raising=False)


def run(typed: str, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    return main(["learn", *arguments])


def kept(tmp_path: Path) -> dict:
    return json.loads((tmp_path / "learn.json").read_text(encoding="utf-8"))


def test_cards_asks_grades_and_saves(tmp_path, monkeypatch, capsys) -> None:
    typed = "\nd\nwhat\n3\n\n1\n"  # details first, something unknown, good; then again; then the input ends
    assert run(typed, "cards", "--topic", "masks", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    first, second, third, *_ = (card for card in all_cards() if card.topic == "masks")
    assert (
        said.index(first.question["en"][:40])
        < said.index(first.answer["en"][:40])
        < said.index(first.detail["en"][:40])
    )
    assert "Type 1, 2, 3, 4, d or q." in said
    assert "in 10 minutes" in said
    assert third.question["en"][:40] in said
    assert third.answer["en"][:40] not in said
    assert "2 answered" in said
    assert "\x1b" not in said
    assert {id: entry["grade"] for id, entry in kept(tmp_path)["cards"].items()} == {
        first.id: "good",
        second.id: "again",
    }


def test_cards_prints_one_card_and_the_list_in_chinese(monkeypatch, capsys) -> None:
    assert main(["learn", "cards", "formula", "--lang", "zh"]) == 0
    assert "缩放点积注意力" in capsys.readouterr().out
    assert main(["learn", "cards", "--list", "--lang", "zh"]) == 0
    said = capsys.readouterr().out
    assert all(card.id in said for card in all_cards())
    assert "未学" in said


def test_the_locale_selects_the_language(monkeypatch, capsys) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert main(["learn", "checklist"]) == 0
    assert "掌握清单" in capsys.readouterr().out


def test_cards_ends_when_none_is_due(tmp_path, monkeypatch, capsys) -> None:
    assert run("\n4\n" * 20, "cards", "--topic", "board", monkeypatch=monkeypatch) == 0
    assert "No card is due and none is new. The next card is due in 8 days." in capsys.readouterr().out


def test_interview_prints_the_summary_even_if_stopped(tmp_path, monkeypatch, capsys) -> None:
    assert run("\n3\n\n1\nq\n", "interview", "--seed", "4", "--lang", "zh", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "第 1/10 题" in said
    assert "按主题汇总" in said
    assert "已答 2 题" in said
    assert len(kept(tmp_path)["cards"]) == 2
    assert run("\n3\n" * 3, "interview", "--questions", "3", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "Question 3 of 3" in said
    assert "3 answered" in said


def test_interview_reports_an_answer_over_the_time_limit(monkeypatch, capsys) -> None:
    clock = iter(range(0, 1000, 200))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    assert run("\n3\n", "interview", "--questions", "1", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "200 s, 80 s too long" in said


def test_drill_grades_each_step(tmp_path, monkeypatch, capsys) -> None:
    task = drill(1, 5, "scaling")
    right = [format_answer(answer) for answer in task.answers().values()]
    assert run("\n".join(right) + "\n", "drill", "--kind", "scaling", "--seed", "5", monkeypatch=monkeypatch) == 0
    assert "All steps are right." in capsys.readouterr().out
    assert kept(tmp_path)["drills"] == {
        task.name: {"level": 2, "passed": True, "wrong": [], "last": kept(tmp_path)["drills"][task.name]["last"]}
    }
    unscaled = format_answer(task.inputs["scores"])
    answers = [option for answer in [unscaled, *right[1:]] for option in ("--answer", answer)]
    assert main(["learn", "drill", "--kind", "scaling", "--seed", "5", *answers]) == 1
    said = capsys.readouterr().out
    assert "scaled: wrong · The scaling is missing" in said
    assert "weights: right" in said


def test_drill_gives_new_numbers_each_time_and_can_be_stopped(tmp_path, monkeypatch, capsys) -> None:
    assert run("q\n", "drill", monkeypatch=monkeypatch) == 0
    assert not (tmp_path / "learn.json").exists()
    first = capsys.readouterr().out
    assert run("1\n", "drill", monkeypatch=monkeypatch) == 1
    capsys.readouterr()
    assert run("", "drill", monkeypatch=monkeypatch) == 0
    assert "seed 0" in first
    assert "seed 1" in capsys.readouterr().out
    assert main(["learn", "drill", "--kind", "softmax", "--seed", "0", "--solution", "--lang", "zh"]) == 0
    assert format_answer(drill(1, 0, "softmax").answers()["weights"]) in capsys.readouterr().out


def test_diagram_checks_the_order_and_saves_attempts(tmp_path, monkeypatch, capsys) -> None:
    right = "input,w_q,w_k,w_v,product,scale,mask,softmax,sum,output"
    assert main(["learn", "diagram", "--order", right.replace("mask,softmax", "softmax,mask")]) == 1
    assert "The mask comes before softmax" in capsys.readouterr().out
    assert run("1 2\nq\n", "diagram", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "Write every number from 1 to 10 once" in said
    shown = {line.split(maxsplit=1)[1]: line.split()[0] for line in said.splitlines() if line[:4].strip().isdigit()}
    labels = DIAGRAMS["self-attention"].pieces
    numbers = " ".join(shown[labels[name].label["en"]] for name in right.split(","))
    assert run(f"{numbers}\n", "diagram", monkeypatch=monkeypatch) == 0
    assert "Right" in capsys.readouterr().out
    assert kept(tmp_path)["flow"]["self-attention"]["tries"] == 2
    assert main(["learn", "checklist"]) == 0
    assert "[ ] Assemble the diagrams of attention (1/2)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["cards", "x"], "regard learn cards: there is no card 'x'"),
        (["cards", "--topic", "x"], "regard learn cards: the topics are mechanism"),
        (["cards", "--lang", "fr"], "--lang must be en or zh, got 'fr'"),
        (["interview", "--questions", "1000"], "an interview has 1 to"),
        (["drill", "--kind", "x"], "the kinds of drills are softmax"),
        (["diagram", "x"], "the diagrams are self-attention, multi-head, got 'x'"),
        (["diagram", "--order", "input"], "an order has every piece once"),
    ],
)
def test_user_errors_are_one_line(arguments, complaint, capsys) -> None:
    assert main(["learn", *arguments]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_an_unreadable_file_is_renamed_with_a_notice(tmp_path, capsys) -> None:
    (tmp_path / "learn.json").write_text("{")
    assert main(["learn", "checklist"]) == 0
    assert "it was renamed to learn.unreadable-1.json" in capsys.readouterr().err


def test_ctrl_c_exits_without_a_traceback(tmp_path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "regard", "learn", "cards"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    said = ""
    while "new" not in said:
        said += child.stdout.read(1)
    child.stdin.write("\n3\n\n")
    child.stdin.flush()
    while said.count("How well did you answer") < 2:
        said += child.stdout.read(1)
    child.send_signal(signal.SIGINT)
    rest, complaints = child.communicate(timeout=30)
    assert child.returncode == 0
    assert "Traceback" not in complaints
    assert "1 answered" in rest
    assert len(kept(tmp_path)["cards"]) == 1


def test_wrap_breaks_chinese_between_characters_and_english_between_words() -> None:
    text = "把 q 和 k 的分量两两配对，按与位置成正比的角度旋转。One word after another."
    lines = wrap(text, 20).split("\n")
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert not any(line[0] in "，。" for line in lines)
    assert lines[-2:] == ["的角度旋转。One word", "after another."]
