"""The view Connect Four: the process that thinks, what it answers, and the game on the real page and server."""

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, expect

from lab_page import Opened, needs_axe, opening
from regard.connectx import AlphaBeta, Board, Network, Solver
from regard.lab import Lab, Settings
from regard.lab import board_heads as heads
from regard.lab import thinker_child as child
from regard.lab.api.four import PLAYERS, board_of, find_network, read
from regard.lab.asking import Mistake
from regard.lab.thinker import Thinker
from regard.lab.work import Full, Job, Work
from regard.models import BoardNet, Evaluator, load, save

Open = Callable[..., Opened]
GAME = "2252576253462244111563365343671351441"  # 37 moves, not over
LATE = GAME[:26]


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver(table_bits=20)


def random_board(rows: int, columns: int, inarow: int, stones: int, seed: int) -> Board:
    lot = random.Random(seed)
    while True:
        board = Board(rows, columns, inarow)
        while board.stones < stones and not board.over:
            board = board.play(lot.choice(board.legal))
        if not board.over:
            return board


class TestThinking:
    @pytest.mark.parametrize("stones", [17, 24, 31, 38])
    def test_the_truth_is_the_solvers(self, solver: Solver, stones: int) -> None:
        for seed in range(3):
            board = random_board(6, 7, 4, stones, seed)
            found = {line["column"]: line["score"] for line in child.truth(board)}
            assert [found.get(column) for column in range(7)] == solver.scores(board)

    @pytest.mark.parametrize("moves", ["", "3", "333"])
    def test_a_symmetric_board_is_answered_on_both_sides(self, moves: str) -> None:
        board = Board.from_moves(moves, 4, 5, 4)
        assert board == board.mirror()
        found = {line["column"]: line["score"] for line in child.truth(board)}
        assert [found.get(column) for column in range(5)] == Solver(4, 5, 4, table_bits=16).scores(board)

    def test_what_alpha_beta_proves_is_the_solvers_score(self) -> None:
        solver, proved = Solver(4, 5, 4, table_bits=16), 0
        for seed in range(40):
            board = random_board(4, 5, 4, 4 + seed % 12, seed)
            found = AlphaBeta(board.shape).run(board.position, board.mask)
            if (score := found.score(20)) is not None:
                proved += 1
                assert score == solver.score(board), board
        assert proved >= 30

    def test_a_game_is_solved_from_its_end(self) -> None:
        board, solver = random_board(4, 5, 4, 14, 3), Solver(4, 5, 4, table_bits=16)
        lines = list(child.game(board))
        assert [line["ply"] for line in lines] == list(range(14, -1, -1))
        for line in lines:
            assert line["scores"] == solver.scores(Board.from_moves(board.moves[: line["ply"]], 4, 5, 4))

    def test_the_solvers_move_is_the_best(self, solver: Solver) -> None:
        board = Board.from_moves(LATE)
        scores = solver.scores(board)
        found = next(child.move(board, {"player": "solver"}))["column"]
        assert scores[found] == max(score for score in scores if score is not None)

    def test_a_win_at_once_needs_no_other_score(self) -> None:
        assert next(child.move(Board.from_moves("112233"), {"player": "solver"})) == {"column": 3}


class TestProcess:
    @pytest.fixture
    def thinker(self) -> Iterator[Thinker]:
        one = Thinker()
        yield one
        one.close()

    def test_time_ends_it_and_another_answers(self, thinker: Thinker) -> None:
        question = {"what": "truth", "moves": "", "size": [7, 8, 4]}  # no book for this size: it takes hours
        assert not thinker.ask(question, 0.3, lambda line: None)
        found: list[Any] = []
        late = {"what": "truth", "moves": LATE, "size": [6, 7, 4]}
        assert thinker.ask(late, 60, lambda line: line and found.append(line))
        assert {line["column"] for line in found} == set(Board.from_moves(LATE).legal)

    def test_who_no_longer_wants_to_know_ends_it(self, thinker: Thinker) -> None:
        def told(_: Any) -> None:
            raise KeyError("enough")

        with pytest.raises(KeyError, match="enough"):
            thinker.ask({"what": "truth", "moves": "44", "size": [6, 7, 4]}, 60, told)
        first = thinker._process
        assert first is not None
        assert first.poll() is None  # the next one gets ready already

    def test_a_process_that_was_ended_from_outside_is_started_again(self, thinker: Thinker) -> None:
        question = {"what": "move", "moves": "112233", "size": [6, 7, 4], "player": "greedy"}
        for _ in range(2):
            found: list[Any] = []
            assert thinker.ask(question, 60, lambda line, found=found: line and found.append(line))
            assert found == [{"column": 3}]
            assert thinker._process is not None
            thinker._process.kill()
            thinker._process.wait()

    def test_what_cannot_be_is_said(self, thinker: Thinker) -> None:
        with pytest.raises(ValueError, match="cannot play '8'"):
            thinker.ask({"what": "truth", "moves": "8", "size": [6, 7, 4]}, 9, lambda line: None)


class TestLanes:
    @pytest.fixture
    def work(self) -> Iterator[Work]:
        one = Work(running=1, waiting=0)
        yield one
        one.close()

    @staticmethod
    def until_stopped(job: Job) -> None:
        while True:
            job.tell()
            time.sleep(0.001)

    def test_a_newer_job_stops_the_older(self, work: Work) -> None:
        first = work.start(self.until_stopped, lane="a")
        second = work.start(lambda job: 5, lane="a")
        assert (work.wait(first, 20).status, work.wait(second, 20).answer) == ("stopped", 5)

    def test_lanes_leave_the_places_to_others(self, work: Work) -> None:
        jobs = [work.start(self.until_stopped, lane=lane) for lane in "abc"]
        assert work.wait(work.start(lambda job: 7), 20).answer == 7
        for job in jobs:
            job.stopping.set()
            assert work.wait(job, 20).status == "stopped"

    def test_a_lane_is_bounded(self, work: Work) -> None:
        gate = threading.Event()
        jobs = [work.start(lambda job: gate.wait(20), lane="a") for _ in range(4)]
        with pytest.raises(Full):
            work.start(lambda job: None, lane="a")
        gate.set()
        assert [work.wait(job, 20).status for job in jobs] == ["done", "stopped", "stopped", "done"]


class TestReading:
    @pytest.mark.parametrize(
        "text", ["445", " 4 4\n5 ", "4,4,5", "4-4-5", "[3, 3, 4]", json.dumps(Board.from_moves("445").kaggle())]
    )
    def test_forms_of_a_game(self, text: str) -> None:
        assert Board.from_moves(read({"text": text})["moves"]) == Board.from_moves("445")

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("448", "no-column"),
            ("44x", "no-column"),
            ("4444444", "column-full"),
            ("11223344", "after-end"),
            ("[3, 3", "list"),
            ('[3, "a"]', "list"),
            ("[3, 12]", "list"),
            (json.dumps([1] * 42), "board"),
        ],
    )
    def test_what_is_no_game_is_refused(self, text: str, code: str) -> None:
        with pytest.raises(Mistake) as refused:
            read({"text": text})
        assert refused.value.code == code

    def test_names_of_players(self) -> None:
        for name in ("random", "minimax:5", "mcts:1000", "solver", "network", "network:200"):
            assert PLAYERS.fullmatch(name)
        for name in ("minimax:99", "mcts:0", "mcts:9999999", "/tmp/main.py", "network:../x", "solver:1"):
            assert not PLAYERS.fullmatch(name)

    def test_boards_of_other_sizes(self) -> None:
        assert board_of({"moves": "99", "rows": 6, "columns": 9, "inarow": 5}).columns == 9
        with pytest.raises(Mistake, match="rows must be a whole number"):
            board_of({"rows": 99})


# ---- the page -----------------------------------------------------------------------------------------------------


def stones(page: Opened) -> list[tuple[int, int, int]]:
    """(column, row from below, player) of every stone that is drawn."""
    read_ = (
        "[...document.querySelectorAll('.board .stones .stone')].map((one) => {"
        " const c = one.querySelector('circle');"
        " const place = ['cx', 'cy'].map((name) => Number(c.getAttribute(name)));"
        " return [...place, one.classList.contains('stone-1') ? 1 : 2]"
        "})"
    )
    found = page.tab.evaluate(read_)
    box = page.tab.evaluate("document.querySelectorAll('.board .rim').length")
    rows = box // page.tab.locator(".board-column").count()
    return sorted((int((x - 22) // 100), rows - 1 - int((y - 120) // 100), int(player)) for x, y, player in found)


def expected_stones(moves: str, *size: int) -> list[tuple[int, int, int]]:
    board, found = Board(*size), []
    for sign in moves:
        column = int(sign) - 1
        height = sum(1 for c, _, _ in found if c == column)
        found.append((column, height, board.turn))
        board = board.play(column)
    return sorted(found)


def moves_of(page: Opened) -> str:
    return "".join(page.tab.locator(".move-list .move-column").all_inner_texts())


def press_column(page: Opened, *columns: int) -> None:
    for column in columns:
        page.tab.locator(f".board-column[data-column='{column}']").click(force=True)  # also where it takes nothing


def done_thinking(page: Opened) -> None:
    page.tab.wait_for_function("() => !document.querySelector('.thinking:not([hidden])')")


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
        assert label.startswith("Column 3, 1 stones; yours would lie in row 2")

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
        expect(page.tab.locator(".move-list .move")).to_have_count(len(LATE) + 2)
        assert Board.from_moves(moves_of(page)).stones == len(LATE) + 2
        expect(page.tab.locator(".status")).to_contain_text(re.compile("Your turn: Red|wins"))

    def test_they_begin_and_can_be_let_move_for_you(self, opened: Open) -> None:
        page = opened("#/four?opponent=greedy&begins=false")
        expect(page.tab.locator(".move-list .move")).to_have_count(1)
        expect(page.tab.locator(".status")).to_contain_text("Your turn: Yellow")
        page.tab.get_by_role("button", name="Let it move").click()
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
        page.tab.get_by_label("Truth of every column").check()
        done_thinking(page)
        board = Board.from_moves(LATE)
        shown = {
            int(chip.get_attribute("data-column") or 0) - 1: int(chip.get_attribute("data-score") or "99")
            for chip in page.tab.locator(".chip").all()
        }
        assert [shown.get(column) for column in range(7)] == solver.scores(board)
        for column, score in shown.items():
            words = solver.in_words(score, board.stones)
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
        expect(page.tab.locator(".truth-line")).to_contain_text("columns known")
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
        expect(page.tab.locator(".truth-line")).to_contain_text("Not known yet")
        expect(page.tab.get_by_role("button", name="Think on")).to_be_visible()
        assert page.tab.locator(".chip-unknown text").first.text_content() == "?"
        press_column(page, 1)  # a new position is thought about in its place
        expect(page.tab.locator(".truth-line")).to_contain_text("of 8 columns known")
        page.tab.get_by_role("button", name="Stop").click()


class TestGame:
    def test_a_pasted_game_is_judged_move_by_move(self, opened: Open, solver: Solver) -> None:
        moves = GAME[:33]
        page = opened("#/four")
        page.tab.get_by_role("textbox", name="Moves").fill(str([int(sign) - 1 for sign in moves]))
        page.tab.get_by_role("button", name="Load").click()
        page.tab.wait_for_selector(".bar-ply[data-ply='20']:not([data-value=''])")
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
        page.tab.wait_for_selector(".bar-ply[data-ply='30']:not([data-value=''])")
        page.tab.get_by_role("button", name="Stop").click()
        done_thinking(page)
        expect(page.tab.locator(".summary")).to_contain_text("were not solved in time")
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
        expect(page.tab.get_by_label("Who begins")).to_have_value("false")
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
        assert set(re.findall(r"https?://[^\"]+", drawn)) == {"http://www.w3.org/2000/svg"}
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
    page.tab.wait_for_selector(".mistakes tbody tr")
    assert page.violations() == []


def test_a_phone_needs_no_sideways_scrolling_nor_jumps(opened: Open) -> None:
    page = opened(f"#/four?opponent=friend&truth=true&moves={LATE}", viewport={"width": 390, "height": 844})
    done_thinking(page)
    assert page.tab.evaluate("[document.documentElement.scrollWidth, scrollY]") == [390, 0]
    box = page.tab.locator(".board-column").first.bounding_box()
    assert box is not None
    assert box["width"] >= 44  # wide enough for a finger


# ---- the network ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(5)
    where = tmp_path_factory.mktemp("networks") / "small"
    save(BoardNet("tiny", attn_every=2, sees=("all", "lines")), where)
    return where


@pytest.fixture(scope="module")
def networked(browser: Browser, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    settings = Settings(warm=False, network=folder, data=tmp_path_factory.mktemp("data"))
    with Lab(settings, port=0) as lab, opening(browser, lab) as open_page:
        yield open_page


def test_without_a_network_the_page_says_how_to_get_one(opened: Open) -> None:
    page = opened("#/four")
    shipped = find_network(None) is not None
    assert page.tab.locator(".commands").count() == int(not shipped)
    assert ("network" in page.tab.get_by_label("You play against").inner_text()) == shipped


class TestNetwork:
    def test_kinds_of_squares(self) -> None:
        board = Board.from_moves("44")
        found = dict(zip(heads.KINDS, heads.kinds(board), strict=True))
        corner = 5 * 7
        counts = {kind: int(where[corner].sum()) for kind, where in found.items()}
        assert counts == {"row": 6, "column": 5, "diagonal": 5, "local": 3, "own": 1, "opponent": 1}
        assert not any(bool(found[kind].diagonal().any()) for kind in ("row", "column", "diagonal", "local"))

    def test_shares_are_measured_beside_chance(self, folder: Path) -> None:
        net, board = heads.loaded(folder)[0], Board.from_moves("4453")
        found = heads.looked(net, board, 17)
        assert len(found) == 8
        squares = torch.tensor(board.kaggle()).view(1, 6, 7)
        x = net.stem(torch.stack([squares == 1, squares == 2], 1).float())  # four stones: the first player moves
        for block in net.blocks[:2]:
            x = block(x)
        layer = net.attention[0]
        _, weights = layer.squares(layer.norm(x), weights=True)  # heads 0 and 1 see everything
        np.testing.assert_allclose(found[1]["weights"], weights[0, 1, 17].detach(), atol=2e-6)
        row = np.array([[a // 7 == b // 7 and a != b for b in range(42)] for a in range(42)])
        share = (weights[0, 1].detach().numpy() * row).sum() / 42
        assert found[1]["shares"]["row"] == pytest.approx(share, abs=1e-6)
        assert found[1]["chances"]["row"] == pytest.approx(6 / 42)
        assert found[1]["sees"] == "all"
        assert found[3]["sees"] == "lines"
        seen = np.array([sum(on_line(a, b) for b in range(42)) for a in range(42)])
        assert found[3]["chances"]["row"] == pytest.approx((6 / seen).mean())

    @pytest.mark.parametrize("simulations", [0, 25])
    def test_its_move_is_legal_and_a_win_is_found_by_search(self, folder: Path, simulations: int) -> None:
        player = heads.loaded(folder)[1]
        board = Board.from_moves("112233")
        found = heads.chosen(player, board, simulations)["column"]
        assert found in board.legal
        if simulations:
            assert found == 3

    def test_policy_value_and_heads_on_the_page(self, networked: Open, folder: Path) -> None:
        page = networked(f"#/four?opponent=friend&moves={LATE}&truth=true&square=17&sort=column")
        page.tab.wait_for_selector(".policy li")
        done_thinking(page)
        board = Board.from_moves(LATE)
        policy, value = Network(Evaluator(load(folder), mirror=True)).judged(board)
        shown = [float(one.get_attribute("data-value") or "9") for one in page.tab.locator(".policy-share").all()]
        np.testing.assert_allclose(shown, policy, atol=1e-6)
        said = page.tab.locator(".value-words strong").get_attribute("data-value") or ""
        assert float(said) == pytest.approx(value, abs=1e-6)
        assert page.tab.locator(".policy .verdict").count() == len(board.legal)
        found = heads.looked(heads.loaded(folder)[0], board, 17)
        wanted = sorted(found, key=lambda head: head["chances"]["column"] - head["shares"]["column"])
        order = [one.get_attribute("data-head") for one in page.tab.locator(".head").all()]
        assert order == [f"{head['layer'] + 1}.{head['head'] + 1}" for head in wanted]
        page.tab.locator(".head[data-head='2.3']").click()
        here = page.tab.locator(".shares [data-here=own]").get_attribute("data-value") or ""
        head = next(one for one in found if (one["layer"], one["head"]) == (1, 2))
        assert float(here) == pytest.approx(head["here"]["own"], abs=1e-6)
        page.tab.locator(".square[data-square='17']").focus()
        page.tab.keyboard.press("ArrowUp")
        expect(page.tab.locator(".square[data-square='10']")).to_have_attribute("aria-pressed", "true")
        assert page.tab.evaluate("document.activeElement.dataset.square") == "10"

    def test_it_plays(self, networked: Open) -> None:
        page = networked(f"#/four?opponent=network&moves={LATE}")
        press_column(page, Board.from_moves(LATE).legal[0] + 1)
        expect(page.tab.locator(".move-list .move")).to_have_count(len(LATE) + 2)
        options = page.tab.get_by_label("Strength").locator("option").all_inner_texts()
        assert options == ["alone, without search", "25 simulations", "200 simulations"]

    @needs_axe
    def test_axe_finds_nothing_serious(self, networked: Open) -> None:
        page = networked("#/four?opponent=friend&moves=4455", color_scheme="dark", reduced_motion="reduce")
        page.tab.wait_for_selector(".head")
        assert page.violations() == []


def on_line(a: int, b: int) -> bool:
    down, right = abs(a // 7 - b // 7), abs(a % 7 - b % 7)
    return down == 0 or right == 0 or down == right
