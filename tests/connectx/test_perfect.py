"""Uses of the solver: the perfect player, balanced openings, hints, and an oracle inside the search."""

import json
import random
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from regard.cli import main
from regard.connectx import Board, Puct, Solver, openings, player
from regard.connectx.arena.move_quality import grade_games, total
from regard.connectx.arena.round_robin import ArenaPlan, run_arena
from regard.connectx.players.exported_players import embedded_solver
from regard.connectx.players.search_players import SolverPlayer
from regard.connectx.players.terminal_game import outcome_word

SIZE = (4, 5, 4)


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver(*SIZE, table_bits=18)


def test_the_solver_player_plays_perfectly(solver: Solver) -> None:
    standing = run_arena(ArenaPlan(("solver", "random", "minimax:2"), games=4, opening="random", plies=4, size=SIZE))
    graded = grade_games(standing.games, solver.scores, SIZE)
    perfect, lots = total(graded["solver"].values()), total(graded["random"].values())
    assert perfect.moves == perfect.perfect > 0
    assert lots.perfect < lots.moves
    assert all(game.status == "DONE" for game in standing.games)


def test_balanced_openings_have_score_0(solver: Solver) -> None:
    boards = list(openings("balanced", 6, SIZE, plies=5))
    assert len(set(boards)) == 6
    for board in boards:
        assert board.stones == 5
        assert solver.score(board) == 0
        assert all(board.play(column).winner is None for column in board.legal)


def test_hints_agree_with_the_game_played(solver: Solver) -> None:
    lot = random.Random(1)
    hints = 0
    for _ in range(60):
        board = Board(*SIZE)
        for _ in range(lot.randrange(14)):
            if not board.over:
                board = board.play(lot.choice(board.legal))
        if board.over:
            continue
        column = lot.choice(board.legal)
        word, mine = outcome_word(board, solver.scores(board)[column]), board.turn
        before, end = board.stones, board.play(column)
        while not end.over:
            end = end.play(solver.best(end))
        stones = [1 + ply % 2 for ply in range(before, end.stones)]  # whose each further stone is
        if end.winner is None:
            assert word == "="
        else:
            sign = "W" if end.winner == mine else "L"
            assert word == f"{sign}{stones.count(end.winner)}"
            hints += 1
    assert hints > 10


def test_an_oracle_inside_the_search(solver: Solver) -> None:
    def knows_nothing(planes: np.ndarray, legal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(legal.shape), np.zeros(len(legal))

    boards = list(openings("random", 8, SIZE, plies=6, seed=3))
    search = Puct(boards, knows_nothing, oracle=solver.score, oracle_empty=13)
    search.run(60)
    for board, column in zip(boards, search.best(), strict=True):
        scores = solver.scores(board)
        chosen, best = scores[column], max(score for score in scores if score is not None)
        assert chosen is not None
        assert np.sign(chosen) == np.sign(best)


def test_quality_in_an_arena(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "arena.json"
    command = ["connectx", "arena", "solver", "greedy", "--games", "4", "--size", "4x5x4", "--plies", "4"]
    assert main([*command, "--quality", "--processes", "1", "--json", str(file)]) == 0
    assert "Moves that keep the value / perfect moves" in capsys.readouterr().out
    found = json.loads(file.read_text())["quality"]
    assert all(grades["perfect"] == 1 for grades in found["solver"].values())


def test_hints_in_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("\n".join(["3", "h", "q"])))
    assert main(["connectx", "play", "solver", "--size", "4x5x4", "--hints"]) == 0
    out = capsys.readouterr().out
    assert out.count("W1: you win with your 1st stone from now") == 3


def test_the_exported_solver_uses_alpha_beta_without_a_book() -> None:
    board = Board.from_moves("112233", 5, 6, 4)
    seated = embedded_solver(0.2, board.shape)
    assert seated.choose(board) == 3
    assert isinstance(player("solver"), SolverPlayer)
