"""The view Practice on the real page and server: what a learner does in each part, and what is kept of it."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from lab_page import Opened, needs_axe
from regard.lab import Lab, Settings
from regard.learn import (
    DIAGRAMS,
    Deck,
    Progress,
    State,
    all_cards,
    as_typed,
    checklist,
    find_card,
    find_drill,
    find_exercise,
)

Open = Callable[..., Opened]
TABS = ["progress", "exercises", "drills", "cards", "interview", "diagram"]
SOFTMAX = find_exercise("softmax")
WRONG_AXIS = next(mistake for mistake in SOFTMAX.mistakes if mistake.key == "wrong-axis")
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """The lab, of a learner who has done nothing yet."""
    assert lab.settings.data is not None
    for file in lab.settings.data.iterdir():
        file.unlink()
    return lab


def file_of(lab: Lab) -> Path:
    assert lab.settings.data is not None
    return lab.settings.data / "learn.json"


def write(page: Opened, source: str) -> None:
    page.tab.locator(".editor-text").fill(source)


def run(page: Opened) -> Locator:
    """Run what is written, and wait for the verdict."""
    page.tab.get_by_role("button", name="Run and grade").click()
    expect(page.tab.locator(".verdict")).to_have_class(re.compile("right|wrong"))
    return page.tab.locator(".verdict")


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
        assert Progress(file_of(lab)).record(SOFTMAX).last == "wrong-axis"

        hints = SOFTMAX.hints("en")
        for count in range(1, len(hints) + 1):
            page.tab.locator("[data-do=hint]").click()
            expect(page.tab.locator(".hints li")).to_have_count(count)
        expect(page.tab.locator("[data-do=hint]")).to_have_count(0)
        expect(page.tab.locator(".hints li").first).to_contain_text("one number per row")

        write(page, SOFTMAX.correct["logarithm"])
        expect(run(page).locator("h3")).to_contain_text("Passed")
        expect(page.tab.locator("[data-exercise='01-softmax']")).to_have_class(re.compile("passed"))
        record = Progress(file_of(lab)).record(SOFTMAX)
        assert (bool(record.passed), record.attempts, record.hints) == (True, 2, len(hints))
        page.tab.get_by_role("button", name="Next: Attention for one query").click()
        expect(page.tab.locator("h2")).to_have_text("Attention for one query")

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
        assert Progress(file_of(lab)).record(SOFTMAX).code == "# half an idea"

    def test_an_endless_loop_is_reported(self, opened: Open, lab: Lab) -> None:
        page = opened("#/practice?tab=exercises")
        write(page, "def softmax(x):\n    while True:\n        pass\n")
        page.tab.keyboard.press("Control+Enter")
        expect(page.tab.locator(".verdict .how-far")).to_contain_text("Running")
        expect(page.tab.locator(".verdict h3")).to_contain_text("timed out")
        assert Progress(file_of(lab)).record(SOFTMAX).last == "timeout"

    def test_in_chinese(self, opened: Open) -> None:
        page = opened("#/practice?tab=exercises", locale="zh-CN")
        write(page, WRONG_AXIS.source)
        page.tab.keyboard.press("Control+Enter")
        expect(page.tab.locator(".verdict h3")).to_contain_text("softmax 的轴弄错了")
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


class TestDrills:
    def fill(self, page: Opened, rows: list[list[str]]) -> None:
        cells = page.tab.locator(".step.now input").all()
        assert len(cells) == sum(map(len, rows))
        cells[0].focus()
        for cell in [cell for row in rows for cell in row]:
            page.tab.keyboard.type(cell.replace("−∞", "-inf"))
            page.tab.keyboard.press("Enter")

    def outcomes(self, page: Opened) -> list[str]:
        return [one.get_attribute("data-outcome") or "" for one in page.tab.locator(".step").all()]

    def typed(self, value: Any) -> list[list[str]]:
        return [[cell.strip() for cell in row.split(",")] for row in as_typed(value).split(";")]

    def test_a_mistake_counts_once(self, opened: Open, lab: Lab) -> None:
        """The first step is wrong; what follows from it is right for the learner's own numbers, then all again."""
        name = "one-query:2:0"
        drill = find_drill(name)
        page = opened(f"#/practice?tab=drills&drill={name}")
        expect(page.tab.locator(".drill h2")).to_have_text(drill.title["en"])
        own = dict(drill.given)
        own[drill.steps[0].name] = [[x + type(x)(x.rational * 0 + 1) for x in row] for row in drill.answers()["scores"]]  # type: ignore[union-attr]
        for step in drill.steps[1:]:
            own[step.name] = step.compute(own)
        for count, step in enumerate(drill.steps, 1):
            self.fill(page, self.typed(own[step.name]))
            expect(page.tab.locator(".step.wrong, .step.right, .step.carried")).to_have_count(count)
        outcomes = self.outcomes(page)
        assert outcomes[0] == "wrong"
        # Scores that are all larger by 1 have the same softmax, so those steps are right in themselves.
        assert set(outcomes[1:]) <= {"right", "carried"}
        expect(page.tab.locator(".drill-end p")).to_contain_text("Steps wrong: 1")
        assert State.load(file_of(lab)).drills[name]["wrong"] == [drill.steps[0].name]
        assert not State.load(file_of(lab)).drills[name]["passed"]

        page.tab.get_by_role("button", name="The same numbers again").click()
        expect(page.tab.locator(".step.now")).to_have_count(1)
        for count, step in enumerate(drill.steps, 1):
            self.fill(page, self.typed(drill.answers()[step.name]))
            expect(page.tab.locator(".step.right")).to_have_count(count)
        expect(page.tab.locator(".drill-end")).to_contain_text("All steps right")
        assert State.load(file_of(lab)).drills[name]["passed"]

    def test_own_values_are_carried_on(self, opened: Open) -> None:
        name = "causal:3:0"
        drill = find_drill(name)
        page = opened(f"#/practice?tab=drills&drill={name}")
        own = dict(drill.given)
        for i, step in enumerate(drill.steps):
            if i == 0:
                wrong = next(mistake for mistake in step.mistakes if mistake.name == "v-for-k")
                own[step.name] = wrong.compute(own)
            else:
                own[step.name] = step.compute(own)
            self.fill(page, self.typed(own[step.name]))
            expect(page.tab.locator(".step.wrong, .step.right, .step.carried")).to_have_count(i + 1)
        assert self.outcomes(page)[0] == "wrong"
        assert "carried" in self.outcomes(page)
        expect(page.tab.locator(".step").first).to_contain_text("as if V stood in for K")
        expect(page.tab.locator(".step").first.locator(".right-answer")).to_contain_text(
            as_typed(drill.answers()["scores"])
        )

    def test_endless_and_by_level(self, opened: Open, lab: Lab) -> None:
        page = opened("#/practice?tab=drills")
        seen = set()
        for level in ("1", "4", "2"):
            page.tab.locator(f"[data-level='{level}']").click()
            expect(page.tab.locator(".drill .eyebrow")).to_contain_text(f"Level {level}")
        page.tab.locator("[data-kind=shapes]").click()
        for _ in range(3):
            expect(page.tab.locator(".drill h2")).to_have_text(find_drill("shapes:2:0").title["en"])
            page.settle()
            seen.add(page.tab.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('drill')"))
            state = State.load(file_of(lab))
            state.drills[sorted(seen)[-1]] = {"level": 2, "passed": True}
            state.save()
            page.tab.locator("[data-kind=shapes]").click()
            page.tab.wait_for_load_state("networkidle")
        assert len(seen) == 3

    def test_what_cannot_be_read_is_said_and_may_be_mended(self, opened: Open) -> None:
        page = opened("#/practice?tab=drills&drill=softmax:1:0")
        page.tab.locator(".step.now button").click()
        expect(page.tab.locator(".step.now .unread")).to_contain_text("Every number is needed")
        for cell in page.tab.locator(".step.now input").all():
            cell.fill("two")
        page.tab.locator(".step.now button").click()
        expect(page.tab.locator(".step.now .unread")).to_contain_text("write 2/3")
        assert self.outcomes(page)[0] == "now"


class TestCards:
    def test_a_card_is_reviewed_by_keys(self, opened: Open, lab: Lab) -> None:
        page = opened("#/practice?tab=cards")
        keyboard = page.tab.keyboard
        first = page.tab.locator(".question").get_attribute("data-card") or ""
        card = find_card(first)
        expect(page.tab.locator(".question h2")).to_have_text(card.question["en"])
        assert page.tab.locator(".standard").count() == 0
        keyboard.press("1")  # no grade before the answer
        expect(page.tab.locator(".question")).to_have_attribute("data-card", first)
        keyboard.press("Space")
        assert page.tab.locator(".standard").inner_text().replace("\n", "") == card.answer["en"].replace("_", "")
        expect(page.tab.locator(".detail")).to_be_hidden()
        keyboard.press("d")
        expect(page.tab.locator(".detail")).to_be_visible()
        keyboard.press("3")
        expect(page.tab.locator(".question")).not_to_have_attribute("data-card", first)
        kept = State.load(file_of(lab)).cards[first]
        assert (kept["grade"], kept["reviews"]) == ("good", 1)
        days = datetime.fromisoformat(kept["due"]) - datetime.now(UTC)
        assert timedelta(days=1) < days < timedelta(days=3)
        expect(page.tab.locator(".count-new dd")).to_have_text(str(len(all_cards()) - 1))

    def test_what_is_due_comes_first_and_is_counted(self, opened: Open, lab: Lab) -> None:
        state = State.load(file_of(lab))
        before = datetime.now(UTC) - timedelta(days=40)
        deck = Deck(all_cards(), state.cards)
        for id in ("empty-row", "formula"):
            deck.grade(id, "good", before)
        state.save()
        page = opened("#/practice?tab=cards")
        expect(page.tab.locator(".count-due dd")).to_have_text("2")
        expect(page.tab.locator("[data-tab=cards] .badge")).to_have_text("2")
        assert page.tab.locator(".question").get_attribute("data-card") in ("empty-row", "formula")
        page.tab.get_by_label("Topic").select_option("cost")
        expect(page.tab.locator(".question .eyebrow")).to_contain_text("Cost")
        expect(page.tab.locator(".count-due dd")).to_have_text("0")

    def test_grades_say_when_the_card_comes_again(self, opened: Open) -> None:
        page = opened("#/practice?tab=cards&card=formula")
        page.tab.keyboard.press("Space")
        waits = [one.inner_text() for one in page.tab.locator(".grade small").all()]
        now = datetime.now(UTC)
        expected = [Deck(all_cards(), {}).grade("formula", grade, now) - now for grade in ("again", "good", "easy")]  # type: ignore[arg-type]
        assert waits[0] == f"{expected[0].total_seconds() / 60:.0f} min"
        assert (waits[2], waits[3]) == (f"{expected[1].days} d", f"{expected[2].days} d")

    @pytest.mark.parametrize("card", [card.id for card in all_cards() if card.wrong])
    def test_what_is_widely_wrong_is_said_where_it_is_met(self, lab: Lab, card: str) -> None:
        from regard.lab.api.practice_cards import one
        from regard.learn import WRONG

        shown = one({"card": card}, file_of(lab))["card"]
        assert shown["wrong"] == [dict(WRONG[n]) for n in find_card(card).wrong]
        assert shown["shows"]

    def test_the_run_that_shows_it(self, opened: Open) -> None:
        page = opened("#/practice")
        assert page.tab.locator(".myths li").count() == 11
        page.tab.get_by_role("button", name="See why: a row with everything hidden is harmless").click()
        expect(page.tab.locator(".question")).to_have_attribute("data-card", "empty-row")
        page.tab.get_by_role("button", name="Show the answer").click()
        expect(page.tab.locator(".myth")).to_contain_text("everything hidden is harmless")
        page.tab.locator("[data-do=show]").click()
        expect(page.tab.locator(".printed pre")).to_contain_text("except where a query sees nothing")
        page.tab.get_by_role("link", name="Open in Trace").click()
        expect(page.tab.locator("[aria-current=step]")).to_be_visible()
        assert page.tab.get_by_label("Rule").input_value() == "causal & ~prefix(2)"

    def test_an_interview_of_ten(self, opened: Open, lab: Lab) -> None:
        page = opened("#/practice?tab=interview&seed=5")
        page.tab.get_by_role("button", name="Begin").click()
        seen = []
        for number in range(1, 11):
            expect(page.tab.locator(".interview-head .eyebrow")).to_have_text(f"Question {number} of 10")
            expect(page.tab.locator("[role=timer]")).to_have_text(re.compile(r"^[12]:\d\d$"))
            seen.append(page.tab.locator(".question").get_attribute("data-card"))
            page.tab.keyboard.press("Space")
            page.tab.keyboard.press("4" if number % 2 else "1")
        expect(page.tab.locator(".interview-end h2")).to_have_text("5 of 10 were good or easy")
        assert page.tab.locator(".interview-end tbody tr").count() == len({find_card(id or "").topic for id in seen})
        assert set(State.load(file_of(lab)).cards) == set(seen)
        first = page.tab.locator(".interview-end tbody tr").first
        assert first.locator("td").nth(1).inner_text() == "0"


class TestDiagram:
    def to(self, page: Opened, piece: str) -> None:
        """Go to a piece with Tab alone."""
        for _ in range(80):
            if page.tab.evaluate("document.activeElement.dataset?.piece") == piece:
                return
            page.tab.keyboard.press("Tab")
        raise AssertionError(f"no way to {piece}")

    def test_put_together_by_keyboard(self, opened: Open, lab: Lab) -> None:
        page = opened("#/practice?tab=diagram")
        edges = DIAGRAMS["self-attention"].answer
        for count, (start, end) in enumerate(edges[:-1], 1):
            self.to(page, start)
            page.tab.keyboard.press("Enter")
            self.to(page, end)
            page.tab.keyboard.press("Enter")
            expect(page.tab.locator(".arrows li button")).to_have_count(count)
        page.tab.get_by_role("button", name="Check").press("Enter")
        expect(page.tab.locator(".verdict.wrong")).to_contain_text("×V needs two things, and has only weights")
        expect(page.tab.locator(".piece.wrong")).to_have_attribute("data-piece", "sum")
        assert not State.load(file_of(lab)).flow["self-attention"]["done"]
        self.to(page, edges[-1][0])
        page.tab.keyboard.press("Enter")
        self.to(page, edges[-1][1])
        page.tab.keyboard.press("Enter")
        page.tab.get_by_role("button", name="Check").press("Enter")
        expect(page.tab.locator(".verdict.right")).to_contain_text("that is how attention flows")
        state = State.load(file_of(lab))
        assert state.flow["self-attention"] == {**state.flow["self-attention"], "done": True, "tries": 2}
        assert checklist(state)[0].have == 1

    def test_by_drag_and_taken_away_again(self, opened: Open) -> None:
        page = opened("#/practice?tab=diagram")

        def middle(piece: str) -> tuple[float, float]:
            page.settle()  # an arrow moves the pieces
            box = page.tab.locator(f"[data-piece={piece}]").bounding_box()
            assert box is not None
            return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

        for start, end in (("input", "w_q"), ("input", "w_k"), ("w_q", "product")):
            page.tab.mouse.move(*middle(start))
            page.tab.mouse.down()
            page.tab.mouse.move(*middle(end), steps=4)
            page.tab.mouse.up()
        expect(page.tab.locator(".arrows li button")).to_have_count(3)
        assert middle("input")[1] < middle("w_q")[1] < middle("product")[1]
        page.tab.get_by_role("button", name="Remove the arrow from the input X to W_k").click()
        expect(page.tab.locator(".arrows li button")).to_have_count(2)
        page.tab.locator("[data-piece=input]").focus()
        page.tab.keyboard.press("Delete")
        expect(page.tab.locator(".arrows li button")).to_have_count(1)
        page.tab.keyboard.press("ArrowDown")
        assert page.tab.evaluate("document.activeElement.dataset.piece") != "input"

    def test_a_picture_of_it(self, opened: Open, tmp_path: Path) -> None:
        page = opened("#/practice")
        assert page.tab.locator("[data-keep=svg]").count() == 0
        page.tab.locator("[data-tab=diagram]").click()
        drawn = page.kept("svg", tmp_path).read_text(encoding="utf-8")
        assert "softmax" in drawn
        assert set(re.findall(r"https?://[^\"]+", drawn)) == {"http://www.w3.org/2000/svg"}
        page.tab.locator("[data-tab=cards]").click()
        expect(page.tab.locator("[data-keep=svg]")).to_have_count(0)


class TestProgress:
    def test_page_and_terminal_agree(self, opened: Open, lab: Lab) -> None:
        page = opened("#/practice")

        def looked_again(done: int) -> None:
            page.tab.locator("[data-tab=drills]").click()
            page.settle()
            page.tab.locator("[data-tab=progress]").click()
            expect(page.tab.locator(".mastery h2")).to_have_text(f"Mastery: {done} of 4")

        expect(page.tab.locator(".mastery h2")).to_have_text("Mastery: 0 of 4")
        state = State.load(file_of(lab))  # meanwhile, in the terminal
        state.exercises = {name: {"passed": "2030-01-01"} for name in ("06-self-attention", "07-multi-head")}
        state.flow = {name: {"done": True} for name in DIAGRAMS}
        state.save()
        looked_again(2)
        state.flow.clear()  # and at once again
        state.save()
        looked_again(1)
        state.flow = {name: {"done": True} for name in DIAGRAMS}
        state.save()
        looked_again(2)
        done = [one.done for one in checklist(State.load(file_of(lab)))]
        shown = ["done" in (one.get_attribute("class") or "") for one in page.tab.locator(".goal").all()]
        assert shown == done == [True, False, True, False]

    def test_a_part_is_forgotten_when_asked_twice(self, opened: Open, lab: Lab) -> None:
        state = State.load(file_of(lab))
        state.exercises["01-softmax"] = {"passed": "2030-01-01"}
        state.flow["multi-head"] = {"done": True}
        state.save()
        page = opened("#/practice")
        page.tab.get_by_text("Your progress is one readable file").click()
        expect(page.tab.locator(".file code")).to_have_text(str(file_of(lab)))
        page.tab.get_by_label("Begin anew").select_option("exercises")
        page.tab.get_by_role("button", name="Forget").click()
        assert State.load(file_of(lab)).exercises
        page.tab.get_by_role("button", name="Really forget the exercises?").click()
        expect(page.tab.locator("[data-row='01-softmax']")).to_have_class(re.compile("open"))
        kept = State.load(file_of(lab))
        assert (kept.exercises, list(kept.flow)) == ({}, ["multi-head"])

    def test_a_damaged_file_is_kept_aside_and_said(self, opened: Open, lab: Lab) -> None:
        file_of(lab).write_text("{half")
        page = opened("#/practice")
        page.tab.get_by_text("Your progress is one readable file").click()
        expect(page.tab.locator(".file .wrong")).to_contain_text("kept as learn.unreadable-1.json")


def links() -> dict[str, str]:
    edges = json.dumps([["input", "w_q"], ["w_q", "product"]])
    columns = find_drill("softmax:1:0").to_plain()["steps"][0]["columns"]
    answers = json.dumps({"exponentials": [["9"] * columns]})
    return {
        "progress": "#/practice",
        "exercises": "#/practice?tab=exercises&exercise=07-multi-head",
        "drills": f"#/practice?tab=drills&drill=softmax:1:0&answers={answers}",
        "cards": "#/practice?tab=cards&card=formula",
        "interview": "#/practice?tab=interview&seed=7",
        "diagram": f"#/practice?tab=diagram&diagram=multi-head&edges={edges}",
    }


class TestLinksAndLooks:
    def check(self, tab: Any) -> None:
        """What the links above restore."""
        part = tab.evaluate("document.querySelector('.part').className").split("part-")[1]
        if part == "exercises":
            expect(tab.locator(".statement h2")).to_have_text(re.compile("Multi-head attention|多头注意力"))
        elif part == "drills":
            assert tab.locator(".step").first.get_attribute("data-outcome") == "wrong"
            assert tab.locator(".step input").first.input_value() == "9"
        elif part == "cards":
            expect(tab.locator(".question")).to_have_attribute("data-card", "formula")
        elif part == "interview":
            expect(tab.locator(".interview-start input")).to_have_value("7")
        elif part == "diagram":
            expect(tab.locator(".arrows li button")).to_have_count(2)
            expect(tab.locator(".piece")).to_have_count(15)

    @pytest.mark.parametrize("tab", TABS)
    def test_a_link_restores_and_a_file_opens_without_a_network(self, opened: Open, tmp_path: Path, tab: str) -> None:
        page = opened(links()[tab])
        self.check(page.tab)
        page.from_disk(page.kept("page", tmp_path))
        assert f"part-{tab}" in (page.tab.locator(".part").get_attribute("class") or "")
        self.check(page.tab)

    @pytest.mark.parametrize(
        "asked",
        [
            "tab=nothing",
            'tab=drills&drill=x:9:9&answers={"a":1}',
            'tab=drills&drill=softmax:1:0&answers={"exponentials":[["x"]]}',
            "tab=cards&card=none&topic=zzz",
            "tab=exercises&exercise=99",
            "tab=diagram&diagram=x&edges=[1,[2]]",
        ],
    )
    def test_a_broken_link_opens_all_the_same(self, opened: Open, asked: str) -> None:
        page = opened(f"#/practice?{asked}")
        expect(page.tab.locator(".part h2").first).to_be_visible()

    @pytest.mark.parametrize("options", [{}, {"color_scheme": "dark", "locale": "zh-CN"}])
    def test_a_phone_needs_no_sideways_scrolling(self, opened: Open, options: dict[str, Any]) -> None:
        page = opened("#/practice", viewport=PHONE, **options)
        for tab in TABS:
            page.tab.locator(f"[data-tab={tab}]").click()
            page.tab.wait_for_selector(f".part-{tab} h2")
            assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390, tab
            if tab == "cards":
                page.tab.keyboard.press("Space")
                page.tab.wait_for_selector(".grade")
                assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390

    @needs_axe
    @pytest.mark.parametrize("options", [{}, {"color_scheme": "dark", "locale": "zh-CN", "viewport": PHONE}])
    def test_axe_finds_nothing_serious(self, opened: Open, options: dict[str, Any]) -> None:
        page = opened("#/practice", **options)
        for tab in TABS:
            page.tab.locator(f"[data-tab={tab}]").click()
            page.tab.wait_for_selector(f".part-{tab} h2")
            if tab == "cards":
                page.tab.keyboard.press("Space")
            if tab == "drills":
                for cell in page.tab.locator(".step.now input").all():
                    cell.fill("9")
                page.tab.locator(".step.now button").click()
                page.tab.wait_for_selector(".step:is(.wrong, .right)")
            if tab == "exercises":
                page.tab.locator(".editor-text").fill(WRONG_AXIS.source)
                page.tab.locator("[data-do=run]").click()
                page.tab.wait_for_selector(".verdict.wrong")
                page.tab.locator("[data-do=hint]").click()
                page.tab.wait_for_selector(".hints li")
            if tab == "diagram":
                page.tab.locator("[data-do=check]").click()
                page.tab.wait_for_selector(".verdict.wrong")
            assert page.violations() == [], tab

    def test_both_languages(self, opened: Open) -> None:
        page = opened("#/practice", locale="zh-CN")
        names = re.compile(r"[A-Za-z]{4,}")
        for tab in TABS:
            page.tab.locator(f"[data-tab={tab}]").click()
            page.tab.wait_for_selector(f".part-{tab} h2")
            place = ".part button, .part h2, .part h3, .part label"
            said = " ".join(one.inner_text() for one in page.tab.locator(place).all())
            allowed = {
                "softmax",
                "einsum",
                "einops",
                "Linear",
                "PyTorch",
                "Python",
                "MultiheadAttention",
                "NumPy",
                "norm",
            }
            assert set(names.findall(said)) <= allowed, tab

    def test_reduced_motion_moves_nothing(self, opened: Open) -> None:
        page = opened("#/practice?tab=diagram", reduced_motion="reduce")
        durations = page.tab.evaluate(
            "[...document.querySelectorAll('button, rect')].map((one) => getComputedStyle(one).transitionDuration)"
        )
        assert set(durations) <= {"0s"}
