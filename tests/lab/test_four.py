"""Connect Four behind the page: the process that thinks, what it answers, and games as they are read."""

import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from regard.connectx import AlphaBeta, Board, Solver
from regard.lab.api.connect_four import PLAYERS, board_of, parse_game
from regard.lab.models import search_worker as child
from regard.lab.models.search_process import SearchProcess
from regard.lab.server.job_queue import Job, JobQueue, QueueFull
from regard.lab.server.request_fields import FieldError
from support.four_page import LATE


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
    def search(self) -> Iterator[SearchProcess]:
        one = SearchProcess()
        yield one
        one.close()

    def test_time_ends_it_and_another_answers(self, search: SearchProcess) -> None:
        question = {"what": "truth", "moves": "", "size": [7, 8, 4]}  # no book for this size: it takes hours
        assert not search.ask(question, 0.3, lambda line: None)
        found: list[Any] = []
        late = {"what": "truth", "moves": LATE, "size": [6, 7, 4]}
        assert search.ask(late, 60, lambda line: line and found.append(line))
        assert {line["column"] for line in found} == set(Board.from_moves(LATE).legal)

    def test_who_no_longer_wants_to_know_ends_it(self, search: SearchProcess) -> None:
        def told(_: Any) -> None:
            raise KeyError("enough")

        with pytest.raises(KeyError, match="enough"):
            search.ask({"what": "truth", "moves": "44", "size": [6, 7, 4]}, 60, told)
        first = search._process
        assert first is not None
        assert first.poll() is None  # the next one gets ready already

    def test_a_process_that_was_ended_from_outside_is_started_again(self, search: SearchProcess) -> None:
        question = {"what": "move", "moves": "112233", "size": [6, 7, 4], "player": "greedy"}
        for _ in range(2):
            found: list[Any] = []
            assert search.ask(question, 60, lambda line, found=found: line and found.append(line))
            assert found == [{"column": 3}]
            assert search._process is not None
            search._process.kill()
            search._process.wait()

    def test_what_cannot_be_is_said(self, search: SearchProcess) -> None:
        with pytest.raises(ValueError, match="cannot play '8'"):
            search.ask({"what": "truth", "moves": "8", "size": [6, 7, 4]}, 9, lambda line: None)

    def test_a_defect_leaves_its_traceback_in_the_terminal(
        self, search: SearchProcess, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(RuntimeError, match="ended unexpectedly"):
            search.ask({"what": "unknown", "moves": "", "size": [6, 7, 4]}, 9, lambda line: None)
        assert "KeyError: 'unknown'" in capfd.readouterr().err


class TestLanes:
    @pytest.fixture
    def work(self) -> Iterator[JobQueue]:
        one = JobQueue(running=1, waiting=0)
        yield one
        one.close()

    @staticmethod
    def until_stopped(job: Job) -> None:
        while True:
            job.report()
            time.sleep(0.001)

    def test_a_newer_job_stops_the_older(self, work: JobQueue) -> None:
        first = work.start(self.until_stopped, lane="a")
        second = work.start(lambda job: 5, lane="a")
        assert (work.wait(first, 20).status, work.wait(second, 20).answer) == ("stopped", 5)

    def test_lanes_leave_the_places_to_others(self, work: JobQueue) -> None:
        jobs = [work.start(self.until_stopped, lane=lane) for lane in "abc"]
        assert work.wait(work.start(lambda job: 7), 20).answer == 7
        for job in jobs:
            job.stop_requested.set()
            assert work.wait(job, 20).status == "stopped"

    def test_a_lane_is_bounded(self, work: JobQueue) -> None:
        gate = threading.Event()
        jobs = [work.start(lambda job: gate.wait(20), lane="a") for _ in range(4)]
        with pytest.raises(QueueFull):
            work.start(lambda job: None, lane="a")
        gate.set()
        assert [work.wait(job, 20).status for job in jobs] == ["done", "stopped", "stopped", "done"]


class TestReading:
    @pytest.mark.parametrize(
        "text", ["445", " 4 4\n5 ", "4,4,5", "4-4-5", "[3, 3, 4]", json.dumps(Board.from_moves("445").kaggle())]
    )
    def test_forms_of_a_game(self, text: str) -> None:
        assert Board.from_moves(parse_game({"text": text})["moves"]) == Board.from_moves("445")

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
        with pytest.raises(FieldError) as refused:
            parse_game({"text": text})
        assert refused.value.code == code

    def test_names_of_players(self) -> None:
        for name in ("random", "minimax:5", "mcts:1000", "solver", "network", "network:200"):
            assert PLAYERS.fullmatch(name)
        for name in ("minimax:99", "mcts:0", "mcts:9999999", "/tmp/main.py", "network:../x", "solver:1"):
            assert not PLAYERS.fullmatch(name)

    def test_boards_of_other_sizes(self) -> None:
        assert board_of({"moves": "99", "rows": 6, "columns": 9, "inarow": 5}).columns == 9
        with pytest.raises(FieldError, match="rows must be a whole number"):
            board_of({"rows": 99})
