"""The solver against plain brute force, against the standard position sets, and against itself."""

import itertools
import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.cli import main
from regard.cli.connectx.book import book as build_book
from regard.connectx import Board, Book, Solver, load_book
from regard.connectx.solver.build_book import load_layers, positions_with, solve_layer
from regard.connectx.solver.position_index import index_tables, layer_size, position_index

Array = np.ndarray
SETS = Path(__file__).parents[1] / "data" / "connect4"
# Every n-th position of each set: with all moves they take some seconds together, without a book.
SAMPLED = {"L3_R1": 1, "L2_R1": 1, "L2_R2": 1, "L1_R1": 2, "L1_R2": 10}


@cache
def solver(rows: int = 6, columns: int = 7, inarow: int = 4) -> Solver:
    return Solver(rows, columns, inarow, book=None, table_bits=20)


# ---- plain brute force: columns as strings, nothing clever ----


def won(columns: tuple[str, ...], rows: int, inarow: int) -> str | None:
    at = {(c, r): stone for c, column in enumerate(columns) for r, stone in enumerate(column)}
    for (c, r), stone in at.items():
        for dc, dr in ((1, 0), (0, 1), (1, 1), (1, -1)):
            if all(at.get((c + i * dc, r + i * dr)) == stone for i in range(inarow)):
                return stone
    return None


@cache
def brute(columns: tuple[str, ...], rows: int, inarow: int) -> int:
    """Return the score found by exhaustive search: 1 plus the stones that the winner has left."""
    stones = sum(map(len, columns))
    cells = rows * len(columns)
    if stones == cells:
        return 0
    mover = "XO"[stones % 2]
    own_stones = (cells + 1 - stones % 2) // 2
    best = -cells
    for c, column in enumerate(columns):
        if len(column) < rows:
            after = (*columns[:c], column + mover, *columns[c + 1 :])
            if won(after, rows, inarow):
                best = max(best, 1 + own_stones - (stones // 2 + 1))
            else:
                best = max(best, -brute(after, rows, inarow))
    return best


def as_board(columns: tuple[str, ...], rows: int, inarow: int) -> Board:
    mover = "XO"[sum(map(len, columns)) % 2]
    bits = [(c * (rows + 1) + r, s) for c, column in enumerate(columns) for r, s in enumerate(column)]
    position = sum(1 << bit for bit, stone in bits if stone == mover)
    mask = sum(1 << bit for bit, _ in bits)
    return Board.from_bits(position, mask, rows, len(columns), inarow, check=False)


def random_board(rows: int, columns: int, inarow: int, stones: int, seed: int) -> tuple[str, ...]:
    """A random unfinished game with this many stones, or fewer if it cannot go on."""
    dice = random.Random(seed)
    board = ("",) * columns
    for n in range(stones):
        free = [c for c in range(columns) if len(board[c]) < rows]
        after = [(*board[:c], board[c] + "XO"[n % 2], *board[c + 1 :]) for c in free]
        after = [a for a in after if not won(a, rows, inarow)]
        if not after:
            break
        board = dice.choice(after)
    return board


@pytest.mark.parametrize(
    ("rows", "columns", "inarow", "count", "every"), [(4, 4, 3, 23_930, 1), (4, 5, 4, 3_100_379, 8)]
)
def test_every_position_of_a_small_board(rows: int, columns: int, inarow: int, count: int, every: int) -> None:
    """All positions that games reach, layer by layer, and their scores back from the full board: no search at all.

    The solver is asked about every one, or every eighth; of mirror images about one.
    """
    stride, cells = rows + 1, rows * columns
    bits = columns * stride
    own = (1 << bits) - 1

    def lined(stones: Array) -> Array:
        found = np.zeros(stones.shape, bool)
        for way in (1, stride, stride + 1, stride - 1):
            found |= np.bitwise_and.reduce([stones >> i * way for i in range(inarow)]) != 0
        return found

    def moves(layer: Array) -> Iterator[tuple[Array, Array, Array]]:
        """For each column: where it is free, where it wins, and the boards after it."""
        position, mask = layer & own, layer >> bits
        for column in range(columns):
            cell = (mask + (1 << column * stride)) & ((1 << rows) - 1) << column * stride
            yield cell != 0, lined(position | cell), (position ^ mask) | (mask | cell) << bits

    def mirrored(layer: Array) -> Array:
        found, column = np.zeros_like(layer), (1 << stride) - 1
        for i, j in itertools.product(range(columns), (0, bits)):
            found |= (layer >> i * stride + j & column) << (columns - 1 - i) * stride + j
        return found

    layers = [np.zeros(1, np.int64)]
    while len(layers) < cells:
        layers.append(np.unique(np.concatenate([after[free & ~wins] for free, wins, after in moves(layers[-1])])))
    assert sum(map(len, layers)) == count
    ours, later = solver(rows, columns, inarow), np.zeros(0, np.int64)
    for stones in reversed(range(cells)):
        layer, best = layers[stones], np.full(len(layers[stones]), -cells)
        for free, wins, after in moves(layer):
            best[free & wins] = (cells + 1 - stones) // 2
            quiet = free & ~wins
            full = stones == cells - 1
            worth = 0 if full else -later[np.searchsorted(layers[stones + 1], after[quiet])]
            best[quiet] = np.maximum(best[quiet], worth)
        one = layer <= mirrored(layer)
        one[np.arange(len(one)) % every != stones % every] = False
        both = zip((layer[one] & own).tolist(), (layer[one] >> bits).tolist(), strict=True)
        np.testing.assert_array_equal([ours.score(*stones) for stones in both], best[one])
        later = best


@pytest.mark.parametrize(
    ("rows", "columns", "inarow", "stones", "count"),
    [(5, 5, 3, 18, 20), (7, 8, 4, 50, 20), (6, 7, 4, 34, 60)],
)
def test_random_positions_agree_with_brute_force(rows: int, columns: int, inarow: int, stones: int, count: int) -> None:
    ours = solver(rows, columns, inarow)
    for seed in range(count):
        board = random_board(rows, columns, inarow, stones + seed % 3, seed)
        assert ours.score(as_board(board, rows, inarow)) == brute(board, rows, inarow), board


# ---- against itself ----


@given(stones=st.integers(14, 41), seed=st.integers(0, 10**6))
def test_a_score_is_the_best_of_the_moves_and_does_not_depend_on_the_side(stones: int, seed: int) -> None:
    board = random_board(6, 7, 4, stones, seed)
    ours = solver()
    scores = ours.scores(as_board(board, 6, 4))
    assert [score is None for score in scores] == [len(column) == 6 for column in board]
    assert ours.score(as_board(board, 6, 4)) == max(score for score in scores if score is not None)
    assert ours.scores(as_board(board[::-1], 6, 4)) == scores[::-1]


@given(stones=st.integers(16, 40), seed=st.integers(0, 10**6))
def test_the_line_ends_as_the_score_says(stones: int, seed: int) -> None:
    board = random_board(6, 7, 4, stones, seed)
    ours = solver()
    stones = sum(map(len, board))
    score = ours.score(as_board(board, 6, 4))
    line = ours.line(as_board(board, 6, 4))
    for n, column in enumerate(line, stones):
        assert won(board, 6, 4) is None
        board = (*board[:column], board[column] + "XO"[n % 2], *board[column + 1 :])
    winner = won(board, 6, 4)
    assert winner == (None if score == 0 else "XO"[(stones + (score < 0)) % 2])
    assert (winner is not None) or all(len(column) == 6 for column in board)
    if winner:
        assert abs(score) == 22 - sum(column.count(winner) for column in board)


@given(stones=st.integers(15, 40), seed=st.integers(0, 10**6), guess=st.integers(-20, 20))
def test_a_guess_does_not_change_the_score(stones: int, seed: int, guess: int) -> None:
    board = as_board(random_board(6, 7, 4, stones, seed), 6, 4)
    fresh = Solver(book=None, table_bits=16)
    assert fresh.score(board, guess=guess) == solver().score(board)


def test_a_table_too_small_for_the_search_gives_the_same_scores() -> None:
    small = Solver(book=None, table_bits=16)
    for seed in range(6):
        board = as_board(random_board(6, 7, 4, 13, seed), 6, 4)
        assert small.score(board) == solver().score(board)


# ---- what is known ----


@pytest.mark.parametrize("name", SAMPLED)
def test_standard_sets_all_moves(name: str) -> None:
    ours = solver()
    for line in (SETS / f"{name}.txt").read_text().splitlines()[:: SAMPLED[name]]:
        moves, score, *scores = line.split()
        board = Board.from_moves(moves)
        assert ours.score(board) == int(score), moves
        assert ours.scores(board) == [None if s == "x" else int(s) for s in scores], moves


def test_standard_set_of_hard_openings() -> None:
    moves, score, *_ = (SETS / "L1_R3.txt").read_text().splitlines()[1].split()
    assert solver().score(Board.from_moves(moves)) == int(score)


def test_the_empty_board_is_won_by_the_middle_column() -> None:
    shipped = Solver()
    empty = Board.from_moves("")
    assert shipped.scores(empty) == [-2, -1, 0, 1, 0, -1, -2]
    assert shipped.best(empty) == 3
    assert shipped.outcome(empty) == "win in 21"


def test_the_shipped_book_scores_openings_without_search() -> None:
    shipped, checked = Solver(table_bits=16), 0
    for name in ("L1_R1", "L1_R2", "L1_R3"):
        for line in (SETS / f"{name}.txt").read_text().splitlines():
            moves, score, *scores = line.split()
            if len(moves) <= 9:
                board = Board.from_moves(moves)
                assert shipped.score(board) == int(score)
                assert shipped.scores(board) == [None if one == "x" else int(one) for one in scores]
                checked += 1
    assert checked == 55
    assert shipped.nodes < 10_000 * checked  # a search would enter millions


def test_outcomes_count_the_stones_of_the_winner() -> None:
    ours = solver()
    assert ours.outcome(Board.from_moves("112233")) == "win in 1"
    assert ours.outcome(Board.from_moves("3344")) == "win in 2"
    assert ours.outcome(Board.from_moves("33442")) == "loss in 1"


# ---- batches ----


def test_a_batch_in_processes_is_the_same_as_one_by_one() -> None:
    boards = [as_board(random_board(6, 7, 4, 22, seed), 6, 4) for seed in range(12)]
    ours = Solver(book=None, table_bits=18)
    one_by_one = [ours.scores(board) for board in boards]
    assert ours.batch(boards, processes=2) == one_by_one
    assert ours.batch(boards) == one_by_one
    assert ours.batch([]) == []


# ---- the book ----


def test_position_index_numbers_every_position_once() -> None:
    ways, choose = index_tables(6, 7)
    shape = Board().shape
    for stones in range(7):
        positions, masks = positions_with(stones)
        places = {
            int(position_index(np.uint64(p), np.uint64(m), stones, shape, ways, choose))
            for p, m in zip(positions, masks, strict=True)
        }
        assert len(places) == positions.size
        assert max(places) < layer_size(6, 7, stones)


def test_a_book_is_built_resumed_saved_and_gives_the_same_scores(tmp_path: Path) -> None:
    begun = solve_layer(tmp_path, 6, rows=4, columns=5, table_bits=16, seconds=0)
    assert begun.solved < begun.total
    done = solve_layer(tmp_path, 6, rows=4, columns=5, table_bits=16)
    assert (done.at_start, done.solved) == (begun.solved, begun.total)
    assert solve_layer(tmp_path, 6, rows=4, columns=5, table_bits=16).at_start == begun.total
    build_book([6], out=tmp_path / "a.book", rows=4, columns=5, folder=tmp_path, table_bits=16)
    book = load_book(tmp_path / "a.book")
    assert book.known == {6: begun.total} == load_layers(tmp_path, 4, 5, 4).known
    assert [path.name for path in tmp_path.glob("*part*")] == []
    with_book, without = Solver(4, 5, 4, book=book, table_bits=16), Solver(4, 5, 4, book=None, table_bits=16)
    for seed in range(60):
        board = as_board(random_board(4, 5, 4, seed % 9, seed), 4, 4)
        assert with_book.scores(board) == without.scores(board)
    assert with_book.nodes < without.nodes


def test_threads_that_share_a_table_find_the_same_scores(tmp_path: Path) -> None:
    for name, threads in (("one", 1), ("three", 3)):
        solve_layer(tmp_path / name, 5, rows=4, columns=5, table_bits=16, threads=threads)
    one, three = (load_layers(tmp_path / name, 4, 5, 4).layers[5] for name in ("one", "three"))
    assert np.count_nonzero(one) > 500
    assert np.array_equal(one, three)


MAKING = """
import sys
from regard.connectx.solver.build_book import solve_layer

solve_layer(sys.argv[1], 9, rows=5, columns=6, table_bits=16, threads=2, report=lambda p: print(p.solved, flush=True))
"""


def test_solved_positions_are_kept_after_ctrl_c(tmp_path: Path) -> None:
    making = subprocess.Popen(
        [sys.executable, "-c", MAKING, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert making.stdout is not None
    solved = 0
    while solved < 20:
        solved = int(making.stdout.readline())
    for task in Path(f"/proc/{making.pid}/task").glob("*/children"):  # where there is no /proc, none to look at
        assert task.read_text().split() == []
    making.send_signal(signal.SIGINT)
    making.communicate()
    assert making.returncode != 0
    assert load_layers(tmp_path, 5, 6, 4).known[9] >= 20


def test_scores_of_the_book_are_used() -> None:
    """A false score in the book is returned, so the book is read, also for the mirror image."""
    ways, choose = index_tables(4, 5)
    lie = np.zeros(layer_size(4, 5, 4), dtype=np.uint8)
    board = Board.from_moves("2234", 4, 5, 4)
    true = Solver(4, 5, 4, book=None, table_bits=16).score(board)
    lie[position_index(np.uint64(board.position), np.uint64(board.mask), 4, board.shape, ways, choose)] = 128 + 5
    lying = Solver(4, 5, 4, book=Book(4, 5, 4, {4: lie}), table_bits=16)
    assert true != 5
    assert lying.score(board) == lying.score(Board.from_moves("4432", 4, 5, 4)) == 5


def test_the_shipped_book_is_small_and_whole() -> None:
    book = load_book()
    assert (book.rows, book.columns, book.inarow) == (6, 7, 4)
    assert Path(str(book_file())).stat().st_size <= 5_000_000
    assert book.known[1] == 4  # of mirror images one
    assert book.whole[-1] == 10
    for stones, layer in book.layers.items():
        assert layer.size == layer_size(6, 7, stones)
        assert np.abs(layer[layer > 0].astype(int) - 128).max() <= (42 - stones) // 2


def book_file() -> Path:
    import regard.connectx

    return Path(regard.connectx.__file__).parent / "books" / "6x7x4.book"


# ---- mistakes ----


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Solver(8, 8), r"\(rows \+ 1\) × columns of at most 64, got 8×8 \(72\)"),
        (lambda: Solver(0, 7), "rows must be an integer of at least 1, got 0"),
        (lambda: Solver(inarow=1), "inarow must be an integer of at least 2, got 1"),
        (lambda: Solver(table_bits=50), "table_bits must be between 16 and 30"),
        (lambda: Solver(4, 5, book=Book(6, 7, 4)), "the book is for 6×7, 4 in a row, the solver for 4×5, 4"),
        (lambda: Solver(book=__file__), "is not an opening book"),
        (lambda: solver().score(Board.from_moves("1212121")), "the game is over: a player has 4 in a row"),
        (lambda: solver().scores(Board.from_moves("1212121")), "the game is over"),
        (lambda: solver().score(Board.from_moves("12", 4, 5, 4)), "the board is 4×5, 4; make a Solver of that size"),
        (lambda: solver().score(0, 0b10), "stones must stand on each other"),
        (lambda: solver().score(0b11, 0b11), "the side to move has as many as the other"),
        (lambda: solver().score(1, 0), "are not a board"),
        (lambda: solver().batch([], processes=0), "processes must be at least 1, got 0"),
        (lambda: build_book([99]), "stones must be between 0 and 24, got 99"),
    ],
)
def test_invalid_input_is_explained(make: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make()  # type: ignore[operator]


def test_a_full_board_is_a_draw_without_moves() -> None:
    ours = solver(3, 3, 3)
    full = Board.from_moves("321213213", 3, 3, 3)
    assert ours.score(full) == 0
    assert ours.scores(full) == [None, None, None]
    assert ours.line(full) == []
    with pytest.raises(ValueError, match="the board is full"):
        ours.best(full)


def test_a_position_without_mask_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="a position and a mask"):
        solver().score(3)  # type: ignore[call-overload]


# ---- the commands ----


def test_solve_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connectx", "solve", "23", "--rows", "4", "--columns", "4", "--inarow", "3"]) == 0
    out = capsys.readouterr().out
    assert ". X O ." in out
    assert "X to move" in out
    assert "best line:" in out


def test_solve_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connectx", "solve", "334172145326753344577134", "--json", "--book", "none"]) == 0
    told = json.loads(capsys.readouterr().out)
    board = Board.from_moves("334172145326753344577134")
    assert told["scores"] == solver().scores(board)
    assert told["outcome"] == solver().outcome(board)
    assert told["scores"][2] is None


def test_solve_reports_mistakes_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connectx", "solve", "1111111"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("regard connectx solve: cannot play '1' as move 7 of '1111111': column 0 is full")
    assert message.count("\n") == 1


def test_book_command_writes_a_book(tmp_path: Path) -> None:
    size = ["--rows", "4", "--columns", "4", "--inarow", "3"]
    options = ["--stones", "3", "--folder", str(tmp_path), "--threads", "1", "--table-bits", "16"]
    assert main(["connectx", "book", *size, *options, "--out", str(tmp_path / "small.book")]) == 0
    assert load_book(tmp_path / "small.book").known[3] > 0


def test_boards_on_which_no_line_fits_are_draws_at_once() -> None:
    solver = Solver(6, 7, 8)
    board = Board.from_moves("4455", 6, 7, 8)
    assert solver.scores(board) == [0] * 7
    assert solver.outcome(board) == "draw"
    assert len(solver.line(board)) == 38
    assert solver.best(board) == 3


def test_solve_stops_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["connectx", "solve", "--rows", "7", "--columns", "7", "--seconds", "0.2"]
    assert main(arguments) == 1
    assert "not solved within 0.2 s" in capsys.readouterr().err
    assert main([*arguments[:-1], "0"]) == 2
    assert main(["connectx", "solve", "--inarow", "8"]) == 0
    assert "draw" in capsys.readouterr().out
    assert main(["connectx", "solve", "1", "--rows", "0"]) == 2
    assert "rows must be" in capsys.readouterr().err
