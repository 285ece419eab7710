"""Move quality, compared with perfect play."""

from pathlib import Path

import pytest

from regard.connectx import Board, play_game, player
from regard.connectx.arena.match import Game
from regard.connectx.arena.move_quality import (
    SET_NAMES,
    Grades,
    find_sets,
    grade_games,
    grade_positions,
    read_positions,
    total,
)
from support import plain_connectx as plain

SIZE = (3, 4, 3)
DATA = Path(__file__).parents[1] / "data" / "connect4"


def scores(board: Board) -> list[int | None]:
    return plain.scores(plain.grid_of(board.kaggle(), board.rows, board.columns), board.inarow, board.stones)


def test_one_position() -> None:
    grades = Grades()
    grades.add([3, 1, 0, -2, None, 3, -1], [0, 1, 0, 0, 0, 0, 0])
    assert (grades.moves, grades.kept, grades.perfect) == (1, 1, 0)
    grades.add([3, 1, 0, -2, None, 3, -1], [1 / 6] * 4 + [0] + [1 / 6] * 2)
    assert (grades.moves, grades.kept, grades.perfect) == pytest.approx((2, 1.5, 1 / 3))
    assert grades.error == pytest.approx(0.25)
    with pytest.raises(ValueError, match="the player chose a full column"):
        grades.add([None, 1], [1, 0])


def test_games_are_graded_by_ply() -> None:
    class Perfect:
        name = "perfect"

        def choose(self, board: Board) -> int:
            found = scores(board)
            return max(board.legal, key=lambda column: found[column] or 0)

    games = [play_game(Perfect(), player("random", seed=seed), Board(*SIZE)) for seed in range(6)]
    games += [play_game(player("random", seed=seed), player("random", seed=-seed), Board(*SIZE)) for seed in range(6)]
    graded = grade_games(games, scores, SIZE)
    best, lots = total(graded["perfect"].values()), total(graded["random"].values())
    assert best.kept == best.perfect == best.moves > 0
    assert lots.kept < lots.moves
    assert set(graded["perfect"]) <= set(range(0, 12, 2))
    assert best.moves + lots.moves == sum(len(game.moves) for game in games)


def test_moves_of_the_opening_are_not_graded() -> None:
    game = Game("a", "b", "12", "1213", None)
    graded = grade_games([game], scores, SIZE)
    assert {name: sorted(plies) for name, plies in graded.items()} == {"a": [2], "b": [3]}


def test_the_standard_sets_are_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must contain the six standard sets, but L3_R1\.txt"):
        find_sets(tmp_path)
    file = tmp_path / "L3_R1.txt"
    file.write_text("444444 1 1 2 -3 x 0 0 0\n")
    ((board, found),) = read_positions(file)
    assert (board.moves, found) == ("444444", [1, 2, -3, None, 0, 0, 0])
    file.write_text("4 1 2\n")
    with pytest.raises(ValueError, match=r"line 1 is not a position, .*expected moves, a score and 7 scores"):
        read_positions(file)


def test_a_random_move_on_the_standard_sets() -> None:
    exact = {"L3_R1": 24.1, "L2_R1": 24.3, "L2_R2": 42.0, "L1_R1": 25.0, "L1_R2": 36.1, "L1_R3": 59.6}
    lots = player("random")
    found = {
        name: round(100 * grade_positions(lots, read_positions(path)).error, 1)
        for name, path in find_sets(DATA).items()
    }
    assert found == exact
    assert tuple(found) == SET_NAMES
