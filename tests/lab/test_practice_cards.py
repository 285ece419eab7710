"""Drills and cards in the view Practice, on the real page and server."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from regard.lab import Lab
from regard.learn import Deck, Progress, all_cards, find_card, find_drill
from regard.learn.drills.matrices import format_answer
from support.lab_page import WORK_PATIENCE, Opened
from support.practice_page import Open, file_of, of_a_beginner


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """The lab, of a learner who has done nothing yet."""
    return of_a_beginner(lab)


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
        return [[cell.strip() for cell in row.split(",")] for row in format_answer(value).split(";")]

    def test_a_mistake_counts_once(self, opened: Open, lab: Lab) -> None:
        """The first step is wrong; what follows from it is right for the learner's own numbers, then all again."""
        name = "one-query:2:0"
        drill = find_drill(name)
        page = opened(f"#/practice?tab=drills&drill={name}")
        expect(page.tab.locator(".drill h2")).to_have_text(drill.title["en"])
        own = dict(drill.inputs)
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
        expect(page.tab.locator(".drill-end p")).to_contain_text("Incorrect steps: 1")
        assert Progress.load(file_of(lab)).drills[name]["wrong"] == [drill.steps[0].name]
        assert not Progress.load(file_of(lab)).drills[name]["passed"]

        page.tab.get_by_role("button", name="Repeat with the same numbers").click()
        expect(page.tab.locator(".step.now")).to_have_count(1)
        for count, step in enumerate(drill.steps, 1):
            self.fill(page, self.typed(drill.answers()[step.name]))
            expect(page.tab.locator(".step.right")).to_have_count(count)
        expect(page.tab.locator(".drill-end")).to_contain_text("All steps are correct")
        assert Progress.load(file_of(lab)).drills[name]["passed"]

    def test_own_values_are_carried_on(self, opened: Open) -> None:
        name = "causal:3:0"
        drill = find_drill(name)
        page = opened(f"#/practice?tab=drills&drill={name}")
        own = dict(drill.inputs)
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
        expect(page.tab.locator(".step").first).to_contain_text("This uses V in place of K")
        expect(page.tab.locator(".step").first.locator(".right-answer")).to_contain_text(
            format_answer(drill.answers()["scores"])
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
            state = Progress.load(file_of(lab))
            state.drills[sorted(seen)[-1]] = {"level": 2, "passed": True}
            state.save()
            page.tab.locator("[data-kind=shapes]").click()
            page.tab.wait_for_load_state("networkidle")
        assert len(seen) == 3

    def test_what_cannot_be_read_is_said_and_may_be_mended(self, opened: Open) -> None:
        page = opened("#/practice?tab=drills&drill=softmax:1:0")
        page.tab.locator(".step.now button").click()
        expect(page.tab.locator(".step.now .unread")).to_contain_text("Fill in every number")
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
        kept = Progress.load(file_of(lab)).cards[first]
        assert (kept["grade"], kept["reviews"]) == ("good", 1)
        days = datetime.fromisoformat(kept["due"]) - datetime.now(UTC)
        assert timedelta(days=1) < days < timedelta(days=3)
        expect(page.tab.locator(".count-new dd")).to_have_text(str(len(all_cards()) - 1))

    def test_what_is_due_comes_first_and_is_counted(self, opened: Open, lab: Lab) -> None:
        state = Progress.load(file_of(lab))
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

    @pytest.mark.parametrize("card", [card.id for card in all_cards() if card.misconceptions])
    def test_what_is_widely_wrong_is_said_where_it_is_met(self, lab: Lab, card: str) -> None:
        from regard.lab.api.practice_cards import card_by_id
        from regard.learn.cards.card import MISCONCEPTIONS

        shown = card_by_id({"card": card}, file_of(lab))["card"]
        assert shown["wrong"] == [dict(MISCONCEPTIONS[n]) for n in find_card(card).misconceptions]
        assert shown["shows"]

    def test_the_run_that_shows_it(self, opened: Open) -> None:
        page = opened("#/practice")
        assert page.tab.locator(".myths li").count() == 11
        page.tab.get_by_role("button", name="See why: a row in which every key is hidden is harmless").click()
        expect(page.tab.locator(".question")).to_have_attribute("data-card", "empty-row")
        page.tab.get_by_role("button", name="Show the answer").click()
        expect(page.tab.locator(".myth")).to_contain_text("every key is hidden is harmless")
        page.tab.locator("[data-do=show]").click()
        expect(page.tab.locator(".printed pre")).to_contain_text(
            "except where a query sees nothing", timeout=WORK_PATIENCE
        )
        page.tab.get_by_role("link", name="Open in Trace").click()
        expect(page.tab.locator("[aria-current=step]")).to_be_visible()
        assert page.tab.get_by_label("Rule").input_value() == "causal & ~prefix(2)"

    def test_an_interview_of_ten(self, opened: Open, lab: Lab) -> None:
        page = opened("#/practice?tab=interview&seed=5")
        page.tab.get_by_role("button", name="Start").click()
        seen = []
        for number in range(1, 11):
            expect(page.tab.locator(".interview-head .eyebrow")).to_have_text(f"Question {number} of 10")
            expect(page.tab.locator("[role=timer]")).to_have_text(re.compile(r"^[12]:\d\d$"))
            seen.append(page.tab.locator(".question").get_attribute("data-card"))
            page.tab.keyboard.press("Space")
            page.tab.keyboard.press("4" if number % 2 else "1")
        expect(page.tab.locator(".interview-end h2")).to_have_text("5 of 10 rated good or easy")
        assert page.tab.locator(".interview-end tbody tr").count() == len({find_card(id or "").topic for id in seen})
        assert set(Progress.load(file_of(lab)).cards) == set(seen)
        first = page.tab.locator(".interview-end tbody tr").first
        assert first.locator("td").nth(1).inner_text() == "0"
