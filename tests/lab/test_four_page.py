"""The view Connect Four: the game on the real page and server."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from regard.connectx import Board, Solver
from support.four_page import GAME, LATE, done_thinking, expected_stones, moves_of, press_column, stones
from support.lab_page import SVG, WORK_PATIENCE, Opened, needs_axe

Open = Callable[..., Opened]


class TestPlaying:
    def test_two_at_one_board_by_mouse(self, opened: Open) -> None:
        page = opened("#/four?opponent=friend")
        press_column(page, 4, 4, 5, 5)
        assert stones(page) == expected_stones("4455")
        expect(page.tab.locator(".status")).to_contain_text("Red ✕ to move")
        expect(page.tab.locator("#said")).to_contain_text("Yellow ○ plays column 5, row 2. Red ✕ to move")
        press_column(page, 6, 6, 7)
        expect(page.tab.locator(".status")).to_contain_text("Red ✕ wins")
        expect(page.tab.locator("#said")).to_contain_text("Red ✕ wins")
        expect(page.tab.locator(".winning-ring")).to_have_count(4)
        press_column(page, 1)
        assert moves_of(page) == "4455667"

    def test_number_keys_play_wherever_the_focus_is(self, opened: Open) -> None:
        page = opened("#/four?opponent=friend")
        page.tab.keyboard.press("4")
        page.settle()
        assert "moves=4" in page.tab.evaluate("location.hash")

    def test_by_keyboard_alone(self, opened: Open) -> None:
        page = opened("#/four?opponent=friend")
        for _ in range(40):
            page.tab.keyboard.press("Tab")
            if page.tab.evaluate("document.activeElement.classList.contains('board-column')"):
                break
        page.tab.keyboard.press("Enter")
        page.tab.keyboard.press("ArrowLeft")
        page.tab.keyboard.press("Space")
        page.tab.keyboard.press("Home")
        page.tab.keyboard.press("ArrowDown")
        page.tab.keyboard.press("7")
        assert stones(page) == expected_stones("4317")
        page.tab.keyboard.press("Backspace")
        assert stones(page) == expected_stones("431")
        label = page.tab.locator(".board-column[data-column='3']").get_attribute("aria-label") or ""
        assert label.startswith("Column 3, 1 stones; your stone would land in row 2")

    def test_undo_redo_and_the_list_of_moves(self, opened: Open) -> None:
        page = opened("#/four?opponent=friend&moves=445566")
        page.tab.get_by_role("button", name="Undo").click()
        assert stones(page) == expected_stones("44556")
        page.tab.locator(".move[data-ply='2']").click()
        assert stones(page) == expected_stones("44")
        expect(page.tab.locator(".move[aria-current=step]")).to_have_attribute("data-ply", "2")
        page.tab.get_by_role("button", name="Redo").click()
        assert stones(page) == expected_stones("445")
        assert moves_of(page) == "445566"
        press_column(page, 1)  # another way: what followed is gone
        assert moves_of(page) == "4451"
        page.tab.get_by_role("button", name="New game").click()
        assert moves_of(page) == ""

    def test_a_full_column_takes_nothing(self, opened: Open) -> None:
        page = opened("#/four?opponent=friend&moves=444444")
        press_column(page, 4)
        assert moves_of(page) == "444444"
        expect(page.tab.locator("#said")).to_contain_text("Column 4 is full")

    @pytest.mark.parametrize("opponent", ["random", "greedy", "minimax:3", "mcts:50", "solver"])
    def test_opponents_answer(self, opened: Open, opponent: str) -> None:
        page = opened(f"#/four?opponent={opponent}&moves={LATE}")
        column = Board.from_moves(LATE).legal[-1] + 1
        press_column(page, column)
        expect(page.tab.locator(".move-list .move")).to_have_count(len(LATE) + 2, timeout=WORK_PATIENCE)
        assert Board.from_moves(moves_of(page)).stones == len(LATE) + 2
        expect(page.tab.locator(".status")).to_contain_text(re.compile("Your turn: Red|wins"))

    def test_they_begin_and_can_be_let_move_for_you(self, opened: Open) -> None:
        page = opened("#/four?opponent=greedy&begins=false")
        expect(page.tab.locator(".move-list .move")).to_have_count(1, timeout=WORK_PATIENCE)
        expect(page.tab.locator(".status")).to_contain_text("Your turn: Yellow")
        page.tab.get_by_role("button", name="Let the computer move").click()
        expect(page.tab.locator(".move-list .move")).to_have_count(3)
        page.tab.get_by_role("button", name="Undo").click()
        expect(page.tab.locator(".move[aria-current=step]")).to_have_attribute("data-ply", "1")

    def test_other_boards(self, opened: Open) -> None:
        page = opened("#/four?opponent=friend")
        page.tab.get_by_label("Board", exact=True).select_option("4 4 3")
        assert page.tab.locator(".board-column").count() == 4
        press_column(page, 1, 2, 1, 2, 1)
        expect(page.tab.locator(".status")).to_contain_text("Red ✕ wins")
        page.tab.get_by_label("Board", exact=True).select_option("own")
        page.tab.get_by_label("Columns", exact=True).fill("8")
        assert page.tab.locator(".board-column").count() == 8
        page.tab.get_by_label("Rows").fill("99")
        expect(page.tab.locator(".field-message:visible")).to_contain_text("from 3 to 9")

    def test_stones_fall_unless_motion_is_reduced(self, opened: Open) -> None:
        lively, calm = opened("#/four?opponent=friend"), opened("#/four?opponent=friend", reduced_motion="reduce")
        for page, count in ((lively, 1), (calm, 0)):
            press_column(page, 4)
            assert page.tab.locator(".board .dropping").count() == count


class TestTruth:
    def test_every_column_has_the_solvers_score(self, opened: Open, solver: Solver) -> None:
        page = opened(f"#/four?opponent=friend&moves={LATE}")
        assert page.tab.locator(".chip").count() == 0
        page.tab.get_by_label("Exact score of every column").check()
        done_thinking(page)
        board = Board.from_moves(LATE)
        shown = {
            int(chip.get_attribute("data-column") or 0) - 1: int(chip.get_attribute("data-score") or "99")
            for chip in page.tab.locator(".chip").all()
        }
        assert [shown.get(column) for column in range(7)] == solver.scores(board)
        for column, score in shown.items():
            words = solver.outcome_of(score, board.stones)
            chip = page.tab.locator(f".chip[data-column='{column + 1}']")
            said = " ".join(chip.locator("text").all_text_contents()).lower()
            assert said == words
            label = page.tab.locator(f".board-column[data-column='{column + 1}']").get_attribute("aria-label") or ""
            assert label.endswith(words)
        best = max(shown.values())
        marked = page.tab.locator(".chip.best").all()
        assert {int(chip.get_attribute("data-score") or "99") for chip in marked} == {best}

    def test_what_is_not_known_is_said_and_nobody_waits_for_it(self, opened: Open) -> None:
        page = opened("#/four?opponent=friend&rows=7&columns=8&moves=44&truth=true")  # no book, and much to solve
        expect(page.tab.locator(".truth-line")).to_contain_text("columns done", timeout=WORK_PATIENCE)
        token = page.lab.settings.token
        took = page.tab.evaluate(
            """async (token) => {
              const began = performance.now();
              const headers = { "x-regard-token": token, "content-type": "application/json" };
              const answer = await fetch("/api/trace", { method: "POST", headers, body: "{}" });
              await answer.json();
              return [answer.status, performance.now() - began];
            }""",
            token,
        )
        assert took[0] == 200
        page.tab.get_by_role("button", name="Stop").click()
        expect(page.tab.locator(".truth-line")).to_contain_text("columns are solved")
        expect(page.tab.get_by_role("button", name="Continue, up to")).to_be_visible()
        assert page.tab.locator(".chip-unknown text").first.text_content() == "?"
        press_column(page, 1)  # a new position is thought about in its place
        expect(page.tab.locator(".truth-line")).to_contain_text("of 8 columns done")
        page.tab.get_by_role("button", name="Stop").click()


class TestGame:
    def test_a_pasted_game_is_judged_move_by_move(self, opened: Open, solver: Solver) -> None:
        moves = GAME[:33]
        page = opened("#/four")
        page.tab.get_by_role("textbox", name="Moves").fill(str([int(sign) - 1 for sign in moves]))
        page.tab.get_by_role("button", name="Load").click()
        page.tab.wait_for_selector(".bar-ply[data-ply='20']:not([data-value=''])", timeout=WORK_PATIENCE)
        done_thinking(page)
        expected, wrong = {}, {}
        for ply in range(20, len(moves)):
            board = Board.from_moves(moves[:ply])
            scores = solver.scores(board)
            best = max(score for score in scores if score is not None)
            got = scores[int(moves[ply]) - 1]
            assert got is not None
            expected[ply] = best if board.turn == 1 else -best
            if np.sign(got) != np.sign(best):
                wrong[ply + 1] = [column for column, score in enumerate(scores, 1) if score == best]
        for ply, value in expected.items():
            expect(page.tab.locator(f".bar-ply[data-ply='{ply}']")).to_have_attribute("data-value", str(value))
        rows = {
            int(row.get_attribute("data-ply") or 0): row.locator("td").nth(3).locator("strong").inner_text()
            for row in page.tab.locator(".mistakes tbody tr").all()
        }
        assert {ply: better for ply, better in rows.items() if ply > 20} == {
            ply: ", ".join(map(str, better)) for ply, better in wrong.items()
        }
        assert wrong
        wide = page.tab.locator(".move").evaluate_all("(all) => all.filter((one) => one.scrollWidth > one.clientWidth)")
        assert wide == []  # every mark stands within its box
        ply = max(wrong)
        expect(page.tab.locator(f".move[data-ply='{ply}'] b")).to_contain_text("?")
        page.tab.locator(f".mistakes tr[data-ply='{ply}'] button").click()
        assert stones(page) == expected_stones(moves[: ply - 1])

    def test_it_can_be_stopped_and_what_is_known_stays(self, opened: Open) -> None:
        moves = "1226355413776851168677334413633664787255"  # no book for this size: only how it ends is known soon
        page = opened(f"#/four?opponent=friend&rows=7&columns=8&moves={moves}&game=true")
        page.tab.wait_for_selector(".bar-ply[data-ply='30']:not([data-value=''])", timeout=WORK_PATIENCE)
        page.tab.get_by_role("button", name="Stop").click()
        done_thinking(page)
        expect(page.tab.locator(".summary")).to_contain_text("could not be solved in time")
        expect(page.tab.locator(".bar-ply[data-ply='30']")).not_to_have_attribute("data-value", "")
        expect(page.tab.locator(".bar-ply[data-ply='2']")).to_have_attribute("data-value", "")

    @pytest.mark.parametrize(("locale", "said"), [("en-US", "Move 3 is “9”"), ("zh-CN", "第 3 手是“9”")])
    def test_what_is_no_game_is_said_at_the_field(self, opened: Open, locale: str, said: str) -> None:
        page = opened("#/four", locale=locale)
        page.tab.locator(".four-analysis input").fill("449")
        page.tab.locator(".four-analysis [type=submit]").click()
        expect(page.tab.locator(".four-analysis .field-message")).to_contain_text(said)


class TestKept:
    def test_a_link_restores_the_view(self, opened: Open) -> None:
        page = opened(f"#/four?opponent=mcts%3A200&moves={LATE}&at=7&begins=false&truth=false")
        assert stones(page) == expected_stones(LATE[:7])
        assert moves_of(page) == LATE
        expect(page.tab.get_by_label("Strength")).to_have_value("200")
        expect(page.tab.get_by_label("First move")).to_have_value("false")
        page.tab.locator(".move[data-ply='9']").click()
        page.settle()
        page.tab.reload()
        page.ready()
        assert stones(page) == expected_stones(LATE[:9])

    def test_a_link_with_impossible_moves_goes_as_far_as_it_can(self, opened: Open) -> None:
        page = opened("#/four?opponent=friend&moves=44444445")
        assert stones(page) == expected_stones("444444")
        expect(page.tab.locator(".toast")).to_contain_text("cannot be played")

    def test_pictures_and_the_file(self, opened: Open, tmp_path: Path) -> None:
        page = opened(f"#/four?opponent=friend&truth=true&moves={LATE}")
        done_thinking(page)
        drawn = page.kept("svg", tmp_path).read_text(encoding="utf-8")
        assert LATE in drawn
        assert "class=" not in drawn
        assert {url for url in re.findall(r"https?://[^\"<]+", drawn) if not url.startswith(page.lab.origin)} == {SVG}
        assert len(page.kept("png", tmp_path).read_bytes()) > 20_000
        file = page.kept("page", tmp_path)
        before, chips = stones(page), page.tab.locator(".chip").count()
        page.from_disk(file)
        page.tab.wait_for_selector(".chip.best")
        assert (stones(page), page.tab.locator(".chip").count()) == (before, chips)
        press_column(page, Board.from_moves(LATE).legal[0] + 1)  # two can go on playing
        assert len(stones(page)) == len(before) + 1


@needs_axe
@pytest.mark.parametrize(
    "options",
    [{}, {"color_scheme": "dark", "locale": "zh-CN", "viewport": {"width": 390, "height": 844}}],
)
def test_axe_finds_nothing_serious(opened: Open, options: dict[str, Any]) -> None:
    page = opened(f"#/four?opponent=friend&truth=true&moves={LATE}", reduced_motion="reduce", **options)
    done_thinking(page)
    assert page.violations() == []
    page.tab.locator(".four-analysis .primary").click()
    page.tab.wait_for_selector(".mistakes tbody tr", timeout=WORK_PATIENCE)
    assert page.violations() == []


def test_a_phone_needs_no_sideways_scrolling_nor_jumps(opened: Open) -> None:
    page = opened(f"#/four?opponent=friend&truth=true&moves={LATE}", viewport={"width": 390, "height": 844})
    done_thinking(page)
    assert page.tab.evaluate("[document.documentElement.scrollWidth, scrollY]") == [390, 0]
    box = page.tab.locator(".board-column").first.bounding_box()
    assert box is not None
    assert box["width"] >= 44  # wide enough for a finger
