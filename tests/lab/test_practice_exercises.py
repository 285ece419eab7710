"""Exercises in the view Practice, on the real page and server: written, run, graded and kept."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from regard.lab import Lab, Settings
from regard.learn import (
    Progress,
    find_exercise,
)
from support.lab_page import WORK_PATIENCE, Opened
from support.practice_page import SOFTMAX, WRONG_AXIS, Open, file_of, of_a_beginner, run, write


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """The lab, of a learner who has done nothing yet."""
    return of_a_beginner(lab)


class TestExercises:
    def test_failed_with_the_right_hint_then_passed_and_kept(self, opened: Open, lab: Lab) -> None:
        page = opened("#/practice?tab=exercises")
        expect(page.tab.locator("h2")).to_have_text("Softmax that never overflows")
        write(page, WRONG_AXIS.source)
        verdict = run(page)
        expect(verdict).to_have_attribute("data-mistake", "wrong-axis")
        expect(verdict.locator("h3")).to_contain_text("Softmax over the wrong axis")
        expect(verdict).to_contain_text("use the last axis")
        expect(verdict.locator(".case")).to_contain_text("Failing case")
        numbers = [
            [float(x) for x in re.findall(r"-?\d+\.\d*", verdict.locator(f".{part} pre").inner_text())]
            for part in ("expected", "yours")
        ]
        assert len(numbers[0]) == len(numbers[1]) > 0
        assert numbers[0] != numbers[1]
        assert Progress.load(file_of(lab)).exercise_record(SOFTMAX).last == "wrong-axis"

        hints = SOFTMAX.hints("en")
        for count in range(1, len(hints) + 1):
            page.tab.locator("[data-do=hint]").click()
            expect(page.tab.locator(".hints li")).to_have_count(count)
        expect(page.tab.locator("[data-do=hint]")).to_have_count(0)
        expect(page.tab.locator(".hints li").first).to_contain_text("one number per row")

        write(page, SOFTMAX.correct["logarithm"])
        expect(run(page).locator("h3")).to_contain_text("Passed")
        expect(page.tab.locator("[data-exercise='01-softmax']")).to_have_class(re.compile("passed"))
        record = Progress.load(file_of(lab)).exercise_record(SOFTMAX)
        assert (bool(record.passed), record.attempts, record.hints) == (True, 2, len(hints))
        page.tab.get_by_role("button", name="Next: Attention for one query").click()
        expect(page.tab.locator("h2")).to_have_text("Attention for one query")

    def test_typing_completes_brackets_and_survives_a_reload(self, opened: Open) -> None:
        page = opened("#/practice?tab=exercises")
        field = page.tab.locator(".editor-text")
        field.fill("")
        field.press_sequentially("def f(x):")
        field.press("Enter")
        field.press_sequentially("return (x[0])")
        expect(field).to_have_value("def f(x):\n    return (x[0])")
        field.press("Enter")
        field.press("Backspace")
        field.press_sequentially("[")
        field.press("Backspace")
        expect(field).to_have_value("def f(x):\n    return (x[0])\n")
        page.tab.reload()  # before the pause after which code is saved
        expect(page.tab.locator(".editor-text")).to_have_value("def f(x):\n    return (x[0])\n")

    def test_progress_survives_a_restart(self, browser: Any, tmp_path: Path) -> None:
        settings = Settings(warm=False, data=tmp_path / "kept")
        source = "# mine\n" + SOFTMAX.correct["logarithm"]
        with Lab(settings, port=0) as first:
            page = Opened(browser, first, "#/practice?tab=exercises")
            write(page, source)
            run(page)
            page.close()
        with Lab(Settings(warm=False, data=tmp_path / "kept"), port=0) as second:
            page = Opened(browser, second, "#/practice?tab=exercises&exercise=01-softmax")
            assert page.tab.locator(".editor-text").input_value() == source
            expect(page.tab.locator(".statement .tag")).to_contain_text("passed on")
            page.tab.locator("[data-tab=progress]").click()
            expect(page.tab.locator("[data-row='01-softmax']")).to_have_class(re.compile("passed"))
            expect(page.tab.locator(".next button").first).to_contain_text("Attention for one query")
            page.close()
            assert page.complaints == []

    def test_what_is_typed_is_kept_without_a_run(self, opened: Open, lab: Lab) -> None:
        page = opened("#/practice?tab=exercises")
        write(page, "# half an idea")
        page.tab.locator("[data-exercise='03-queries']").click()
        expect(page.tab.locator("h2")).to_have_text("Many queries at once")
        page.tab.go_back()
        expect(page.tab.locator(".editor-text")).to_have_value("# half an idea")
        assert Progress.load(file_of(lab)).exercise_record(SOFTMAX).code == "# half an idea"

    def test_an_exercise_is_loaded_after_its_code_is_saved(self, opened: Open) -> None:
        page = opened("#/practice?tab=exercises")
        held = page.hold("**/api/practice/code")
        write(page, "# half an idea")
        page.tab.locator("[data-exercise='03-queries']").click()
        expect(page.tab.locator("[data-exercise='03-queries']")).to_have_attribute("aria-current", "page")
        page.tab.go_back()
        expect(page.tab.locator("[data-exercise='01-softmax']")).to_have_attribute("aria-current", "page")
        page.tab.wait_for_timeout(300)  # long enough to load the exercise without its code
        assert len(held) == 1
        page.release()
        page.settle()
        expect(page.tab.locator(".editor-text")).to_have_value("# half an idea")

    def test_an_endless_loop_is_reported(self, opened: Open, lab: Lab) -> None:
        page = opened("#/practice?tab=exercises")
        write(page, "def softmax(x):\n    while True:\n        pass\n")
        page.tab.keyboard.press("Control+Enter")
        expect(page.tab.locator(".verdict .how-far")).to_contain_text("Running")
        expect(page.tab.locator(".verdict h3")).to_contain_text("timed out", timeout=WORK_PATIENCE)
        assert Progress.load(file_of(lab)).exercise_record(SOFTMAX).last == "timeout"

    def test_in_chinese(self, opened: Open) -> None:
        page = opened("#/practice?tab=exercises", locale="zh-CN")
        write(page, WRONG_AXIS.source)
        page.tab.keyboard.press("Control+Enter")
        expect(page.tab.locator(".verdict h3")).to_contain_text("softmax 的轴弄错了", timeout=WORK_PATIENCE)
        page.tab.locator("[data-do=hint]").click()
        expect(page.tab.locator(".hints li")).to_contain_text("三步")

    def test_the_solution_is_shown_when_asked_for_twice(self, opened: Open) -> None:
        page = opened("#/practice?tab=exercises")
        page.tab.get_by_role("button", name="Solution").click()
        expect(page.tab.locator(".solution pre")).to_have_count(0)
        page.tab.get_by_role("button", name="Not passed yet").click()
        expect(page.tab.locator(".solution pre").first).to_contain_text("keepdims=True")
        assert page.tab.locator(".solution details").count() == len(SOFTMAX.correct)

    def test_without_the_runner_it_says_so(self, browser: Any, tmp_path: Path) -> None:
        with Lab(Settings(warm=False, runner=False, data=tmp_path), port=0) as served:
            page = Opened(browser, served, "#/practice?tab=exercises")
            expect(page.tab.locator(".work .buttons")).to_contain_text("regard learn run")
            assert page.tab.locator("[data-do=run]").count() == 0
            page.close()

    def test_every_statement_is_set_in_both_languages(self, opened: Open) -> None:
        page = opened("#/practice?tab=exercises")
        for language in ("en", "zh"):
            if language == "zh":
                page.tab.locator(".language").click()
            for chip in page.tab.locator(".exercise-list button").all():
                name = chip.get_attribute("data-exercise") or ""
                chip.click()
                expect(page.tab.locator(".statement .eyebrow")).to_contain_text(name[:2])
                title = page.tab.locator(".statement h2").inner_text()
                wanted = find_exercise(name).title("en" if language == "en" else "zh")
                assert title.replace("\n", "") == wanted.replace("_", "")
                said = " ".join(page.tab.locator(".statement > :not(pre)").all_inner_texts())
                assert "**" not in said
                assert "```" not in said
                assert "<BLANKLINE>" not in page.tab.locator(".statement").inner_text()
                assert page.tab.locator(".editor-text").input_value() == find_exercise(name).starter


class TestEditor:
    def at(self, page: Opened) -> str:
        return page.tab.evaluate("document.activeElement.className + (document.activeElement.dataset.do ?? '')")

    def test_tab_indents_and_escape_lets_go(self, opened: Open) -> None:
        page = opened("#/practice?tab=exercises")
        box, keyboard = page.tab.locator(".editor-text"), page.tab.keyboard
        box.fill("")
        box.focus()
        keyboard.type("def f(x):")
        keyboard.press("Enter")
        keyboard.type("return x")
        assert box.input_value() == "def f(x):\n    return x"
        keyboard.press("Tab")
        assert box.input_value() == "def f(x):\n    return x    "
        keyboard.press("Control+a")
        keyboard.press("Tab")
        assert box.input_value() == "    def f(x):\n        return x    "
        keyboard.press("Shift+Tab")
        keyboard.press("Shift+Tab")
        assert box.input_value() == "def f(x):\nreturn x    "
        keyboard.press("Control+z")
        assert box.input_value() == "def f(x):\n    return x    "
        assert "editor-text" in self.at(page)
        keyboard.press("Escape")
        keyboard.press("Tab")
        assert "run" in self.at(page)
        keyboard.press("Shift+Tab")
        keyboard.press("Escape")
        keyboard.press("Shift+Tab")
        assert "editor-text" not in self.at(page)

    def test_lines_are_numbered_and_the_tint_is_the_text(self, opened: Open) -> None:
        page = opened("#/practice?tab=exercises")
        source = 'import numpy as np  # "quoted"\n\n\ndef f(x):\n    """Two\n    lines"""\n    return 1.5 * x[0]'
        write(page, source)
        assert page.tab.locator(".editor-gutter").inner_text().split() == [str(i) for i in range(1, 8)]
        assert page.tab.locator(".editor-tint").evaluate("(one) => one.textContent") == source + "\n"
        comment = page.tab.locator(".editor-tint .py-comment")
        assert comment.inner_text() == '# "quoted"'
        box, tint = (page.tab.locator(f".editor-{one}").bounding_box() for one in ("text", "tint"))
        assert box is not None
        assert tint is not None
        assert (box["x"], box["y"]) == (tint["x"], tint["y"])
