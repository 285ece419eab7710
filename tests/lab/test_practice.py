"""The view Practice on the real page and server: the diagram, what is kept of a learner's work, links and looks."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from regard.lab import Lab
from regard.learn import (
    DIAGRAMS,
    Progress,
    checklist,
    find_drill,
)
from support.lab_page import SVG, WORK_PATIENCE, Opened, needs_axe
from support.practice_page import WRONG_AXIS, Open, file_of, of_a_beginner

TABS = ["progress", "exercises", "drills", "cards", "interview", "diagram"]
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """The lab, of a learner who has done nothing yet."""
    return of_a_beginner(lab)


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
        expect(page.tab.locator(".verdict.wrong")).to_contain_text("×V needs two inputs, but has only weights")
        expect(page.tab.locator(".piece.wrong")).to_have_attribute("data-piece", "sum")
        assert not Progress.load(file_of(lab)).flow["self-attention"]["done"]
        self.to(page, edges[-1][0])
        page.tab.keyboard.press("Enter")
        self.to(page, edges[-1][1])
        page.tab.keyboard.press("Enter")
        page.tab.get_by_role("button", name="Check").press("Enter")
        expect(page.tab.locator(".verdict.right")).to_contain_text("this computes attention")
        state = Progress.load(file_of(lab))
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
        page.tab.locator("[data-tab=diagram]").click()
        page.tab.wait_for_selector(".flow-picture .piece")
        drawn = page.kept("svg", tmp_path).read_text(encoding="utf-8")
        assert "softmax" in drawn
        assert {url for url in re.findall(r"https?://[^\"<]+", drawn) if not url.startswith(page.lab.origin)} == {SVG}


class TestProgress:
    def test_page_and_terminal_agree(self, opened: Open, lab: Lab) -> None:
        page = opened("#/practice")

        def looked_again(done: int) -> None:
            page.tab.locator("[data-tab=drills]").click()
            page.settle()
            page.tab.locator("[data-tab=progress]").click()
            expect(page.tab.locator(".mastery h2")).to_have_text(f"Mastery: {done} of 4")

        expect(page.tab.locator(".mastery h2")).to_have_text("Mastery: 0 of 4")
        state = Progress.load(file_of(lab))  # meanwhile, in the terminal
        core = ("06-self-attention", "07-multi-head", "08-layer-class")
        state.exercises = {name: {"passed": "2030-01-01"} for name in core}
        state.flow = {name: {"done": True} for name in DIAGRAMS}
        state.save()
        looked_again(2)
        state.flow.clear()  # and at once again
        state.save()
        looked_again(1)
        state.flow = {name: {"done": True} for name in DIAGRAMS}
        state.save()
        looked_again(2)
        done = [one.done for one in checklist(Progress.load(file_of(lab)))]
        shown = ["done" in (one.get_attribute("class") or "") for one in page.tab.locator(".goal").all()]
        assert shown == done == [True, False, True, False]

    def test_a_part_is_forgotten_when_asked_twice(self, opened: Open, lab: Lab) -> None:
        state = Progress.load(file_of(lab))
        state.exercises["01-softmax"] = {"passed": "2030-01-01"}
        state.flow["multi-head"] = {"done": True}
        state.save()
        page = opened("#/practice")
        page.tab.get_by_text("Your progress is stored in one readable file").click()
        expect(page.tab.locator(".file code")).to_have_text(str(file_of(lab)))
        page.tab.get_by_label("Start over").select_option("exercises")
        page.tab.get_by_role("button", name="Delete progress").click()
        assert Progress.load(file_of(lab)).exercises
        page.tab.get_by_role("button", name="Delete the progress in the exercises? Press again to confirm").click()
        expect(page.tab.locator("[data-row='01-softmax']")).to_have_class(re.compile("open"))
        kept = Progress.load(file_of(lab))
        assert (kept.exercises, list(kept.flow)) == ({}, ["multi-head"])

    def test_a_damaged_file_is_kept_aside_and_said(self, opened: Open, lab: Lab) -> None:
        file_of(lab).write_text("{half")
        page = opened("#/practice")
        page.tab.get_by_text("Your progress is stored in one readable file").click()
        expect(page.tab.locator(".file .wrong")).to_contain_text("renamed to learn.unreadable-1.json")


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
                page.tab.wait_for_selector(".verdict.wrong", timeout=WORK_PATIENCE)
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
            said = " ".join(page.tab.locator(place).all_inner_texts())
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
